package s3

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/smithy-go/encoding/httpbinding"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Notary proves requests that a Store without credentials wants to make. The bytes go from there to the bucket; the credentials stay here, and each request
// is looked at.
type Notary struct {
	cfg    Config
	host   string
	signer *v4.Signer
}

// NewNotary has the credentials of cfg.
func NewNotary(cfg Config) (*Notary, error) {
	if _, err := Open(cfg); err != nil { // the same rules
		return nil, err
	}
	at, err := url.Parse(EndpointOf(cfg))
	if err != nil {
		return nil, err
	}
	return &Notary{cfg, at.Host, v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })}, nil
}

// EndpointOf is where the bucket is asked, also where no endpoint is named.
func EndpointOf(cfg Config) string {
	switch {
	case cfg.Endpoint != "":
		return cfg.Endpoint
	case strings.HasPrefix(cfg.Region, "cn-"):
		return "https://s3." + cfg.Region + ".amazonaws.com.cn"
	}
	return "https://s3." + cfg.Region + ".amazonaws.com"
}

// deeds are the requests that a Store makes, by method and what of their query says which one it is; true: it writes. There are no others: not those that copy
// from elsewhere, and not those that delete what only their body names.
var deeds = map[string]bool{
	"GET": false, "GET list-type": false,
	"PUT": true, "DELETE": true, "POST uploads": true, "PUT partNumber uploadId": true, "POST uploadId": true, "DELETE uploadId": true,
}

// details are the parts of a query that say nothing of what is done.
var details = []string{"x-id", "prefix", "max-keys", "start-after", "continuation-token"}

// signable are the headers that a Store sends.
var signable = []string{
	"Accept-Encoding", "Amz-Sdk-Invocation-Id", "Amz-Sdk-Request", "Content-Encoding", "Content-Length", "Content-Md5", "Content-Type", "If-Match", "If-None-Match", "Range",
	"X-Amz-Checksum-Crc32", "X-Amz-Checksum-Mode", "X-Amz-Content-Sha256", "X-Amz-Date", "X-Amz-Decoded-Content-Length", "X-Amz-Sdk-Checksum-Algorithm", "X-Amz-Checksum-Algorithm", "X-Amz-Trailer",
	"Expect", "User-Agent",
}

// Sign adds to a request what proves it, at now. may is asked first whether the object with this key, or what begins with it in a list, may be read or written.
func (n *Notary) Sign(ctx context.Context, r *http.Request, now time.Time, may func(key string, write bool) error) error {
	key, write, ok := n.read(r)
	if !ok {
		return fault.New(fault.Forbidden, "NotSigned", fault.T("This is no request for an object of the store.", "这不是对存储对象的合法请求。"))
	}
	if err := may(key, write); err != nil {
		return err
	}
	id, secret, token, err := n.cfg.Credentials(ctx)
	if err != nil {
		return err
	}
	r.Host = n.host
	return n.signer.SignHTTP(ctx, aws.Credentials{AccessKeyID: id, SecretAccessKey: secret, SessionToken: token}, r, r.Header.Get("X-Amz-Content-Sha256"), "s3", n.cfg.Region, now)
}

// read says which object of our folder a request is about; false: it is not one that a Store makes.
func (n *Notary) read(r *http.Request) (key string, write, ok bool) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || r.URL.Host != n.host || r.URL.User != nil || r.URL.EscapedPath() != httpbinding.EscapePath(r.URL.Path, false) {
		return "", false, false
	}
	deed := r.Method
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if len(query[name]) != 1 {
			return "", false, false
		}
		if !slices.Contains(details, name) {
			deed += " " + name
		}
	}
	if write, ok = deeds[deed]; !ok || r.Header.Get("X-Amz-Content-Sha256") == "" {
		return "", false, false
	}
	for name, values := range r.Header {
		if !slices.Contains(signable, http.CanonicalHeaderKey(name)) || len(values) != 1 {
			return "", false, false
		}
	}
	folder := ""
	if n.cfg.Prefix != "" {
		folder = n.cfg.Prefix + "/"
	}
	if deed == "GET list-type" {
		key, ok = strings.CutPrefix(query.Get("prefix"), folder)
		return key, write, ok && strings.TrimSuffix(r.URL.Path, "/") == "/"+n.cfg.Bucket && blob.CheckPrefix(key) == nil
	}
	key, ok = strings.CutPrefix(r.URL.Path, "/"+n.cfg.Bucket+"/"+folder)
	return key, write, ok && blob.CheckKey(key) == nil
}

// signer is how a client without credentials has its requests proved.
type signer func(ctx context.Context, r *http.Request) error

// SignHTTP is that of the SDK.
func (s signer) SignHTTP(ctx context.Context, _ aws.Credentials, r *http.Request, payload, _, _ string, _ time.Time, _ ...func(*v4.SignerOptions)) error {
	r.Header.Set("X-Amz-Content-Sha256", payload)
	return s(ctx, r)
}
