package bucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	pageKeys = 1000
	// window is what one request brings of an object.
	window = asset.ChunkMax
	// maxSkipped bounds what is told of keys that are no paths.
	maxSkipped = 1000

	answerWithin  = time.Minute
	defaultRegion = "us-east-1"
)

// Account is the one of the AWS settings around this process: in a task that named a secret, that secret's.
func Account(ctx context.Context) (api.S3Credential, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return api.S3Credential{}, err
	}
	keys, err := cfg.Credentials.Retrieve(ctx)
	return api.S3Credential{
		AccessKeyID: keys.AccessKeyID, SecretAccessKey: keys.SecretAccessKey, SessionToken: keys.SessionToken, Region: cfg.Region, Endpoint: aws.ToString(cfg.BaseEndpoint),
	}, err
}

// Bucket is a prefix of one. Safe for concurrent use.
type Bucket struct {
	client *s3.Client
	where  mount.S3Source
	prefix string // "", or with a final slash
}

// Open asks nothing of the server. What the source leaves out is the account's.
func Open(where mount.S3Source, account api.S3Credential) *Bucket {
	o := s3.Options{
		Region: cmp.Or(where.Region, account.Region, defaultRegion), UsePathStyle: true, RetryMaxAttempts: 5,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: account.AccessKeyID, SecretAccessKey: account.SecretAccessKey, SessionToken: account.SessionToken}, nil
		}),
		HTTPClient: &http.Client{Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 32, IdleConnTimeout: 30 * time.Second, TLSHandshakeTimeout: 20 * time.Second, ResponseHeaderTimeout: answerWithin,
		}},
	}
	if end := cmp.Or(where.Endpoint, account.Endpoint); end != "" {
		o.BaseEndpoint = &end
	}
	prefix := strings.Trim(where.Prefix, "/")
	if prefix != "" {
		prefix += "/"
	}
	return &Bucket{client: s3.New(o), where: where, prefix: prefix}
}

// List lists all objects as files in order, with their ETags. skipped are keys that are no paths of files, such as those of folders; at most
// the first thousand are named.
func (b *Bucket) List(ctx context.Context) (files []asset.File, skipped []string, err error) {
	in := &s3.ListObjectsV2Input{Bucket: &b.where.Bucket, Prefix: &b.prefix, MaxKeys: aws.Int32(pageKeys)}
	for {
		out, err := b.client.ListObjectsV2(ctx, in)
		if err != nil {
			return nil, nil, b.sick(err, asset.File{})
		}
		for _, o := range out.Contents {
			f := asset.File{Path: strings.TrimPrefix(aws.ToString(o.Key), b.prefix), Size: aws.ToInt64(o.Size), Tag: strings.Trim(aws.ToString(o.ETag), `"`)}
			switch {
			case asset.CheckPath(f.Path) == nil && f.Tag != "":
				files = append(files, f)
			case f.Path != "" && len(skipped) < maxSkipped:
				skipped = append(skipped, f.Path)
			}
		}
		if len(files) > asset.MaxFiles {
			return nil, nil, fault.New(fault.Invalid, "TooManyObjects", fault.T("There are more than %d objects under this prefix; name a longer one.", "该前缀下的对象超过 %d 个，请使用更长的前缀。", asset.MaxFiles))
		}
		if !aws.ToBool(out.IsTruncated) || out.NextContinuationToken == nil {
			break
		}
		in.ContinuationToken = out.NextContinuationToken
	}
	if len(files) == 0 {
		return nil, skipped, fault.New(fault.NotFound, "EmptyPrefix", fault.T("There are no objects in s3://%s/%s.", "s3://%s/%s 中没有对象。", b.where.Bucket, b.prefix))
	}
	slices.SortFunc(files, func(x, y asset.File) int { return asset.Compare(x.Path, y.Path) })
	return files, skipped, nil
}

// Open gives an object of the listing; requests are made as it is read. One that is not what was listed is fault Conflict.
func (b *Bucket) Open(ctx context.Context, f asset.File) io.ReadSeekCloser {
	return &object{ctx: ctx, b: b, f: f}
}

// object is one object, read window by window.
type object struct {
	ctx  context.Context
	b    *Bucket
	f    asset.File
	at   int64
	body io.ReadCloser // stands at at; nil: none
	end  int64         // of the body
}

const tries = 5

// Read goes on after a connection that broke.
func (o *object) Read(p []byte) (int, error) {
	if o.at >= o.f.Size {
		return 0, io.EOF
	}
	for try := 1; ; try++ {
		if o.body == nil {
			if err := o.request(); err != nil {
				return 0, err
			}
		}
		n, err := o.body.Read(p[:min(int64(len(p)), o.end-o.at)])
		if o.at += int64(n); o.at == o.end || n == 0 && err != nil {
			o.drop()
		}
		if n > 0 || len(p) == 0 {
			return n, nil
		}
		if err != nil && (try == tries || o.ctx.Err() != nil) {
			return 0, o.b.sick(errors.Join(err, o.ctx.Err()), o.f)
		}
	}
}

func (o *object) request() error {
	o.end = min(o.at+window, o.f.Size)
	out, err := o.b.client.GetObject(o.ctx, &s3.GetObjectInput{
		Bucket: &o.b.where.Bucket, Key: aws.String(o.b.prefix + o.f.Path), IfMatch: aws.String(`"` + o.f.Tag + `"`), Range: aws.String(fmt.Sprintf("bytes=%d-%d", o.at, o.end-1)),
	})
	if err != nil {
		return o.b.sick(err, o.f)
	}
	if n := aws.ToInt64(out.ContentLength); n != o.end-o.at {
		_ = out.Body.Close()
		return changed(o.f)
	}
	o.body = out.Body
	return nil
}

func (o *object) drop() {
	if o.body != nil {
		_ = o.body.Close()
		o.body = nil
	}
}

// Seek is io.Seeker.
func (o *object) Seek(to int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		to += o.at
	case io.SeekEnd:
		to += o.f.Size
	}
	if to < 0 {
		return 0, fs.ErrInvalid
	}
	if to != o.at {
		o.drop()
		o.at = to
	}
	return to, nil
}

// Close is io.Closer.
func (o *object) Close() error {
	o.drop()
	return nil
}

func changed(f asset.File) *fault.Error {
	return fault.New(fault.Conflict, "SourceChanged", fault.T("The object %.200q is not the one that was listed: it was replaced or deleted since.", "对象 %.200q 已不是清单中的对象：此后被替换或删除。", f.Path)).
		WithHint(fault.T("List the source again, which makes a new version: fermi data import --reference.", "请重新列出来源以生成新版本：fermi data import --reference。"))
}

// sick turns what the server or the network said into a fault. What may pass is no fault.
func (b *Bucket) sick(err error, f asset.File) error {
	var already *fault.Error
	if errors.As(err, &already) || errors.Is(err, context.Canceled) {
		return err
	}
	status, code := 0, ""
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) {
		status = response.HTTPStatusCode()
	}
	var said smithy.APIError
	if errors.As(err, &said) {
		code = said.ErrorCode()
	}
	switch {
	case f.Path != "" && code != "NoSuchBucket" && (status == http.StatusPreconditionFailed || status == http.StatusNotFound || status == http.StatusRequestedRangeNotSatisfiable):
		return changed(f).Because(err)
	case status == http.StatusNotFound:
		return fault.New(fault.NotFound, "NoSuchBucket", fault.T("There is no bucket %q there.", "桶 %q 不存在。", b.where.Bucket)).Because(err)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fault.New(fault.Forbidden, "StoreForbids", fault.T("The bucket %q may not be read with the account of secret %q.", "密钥 %[2]q 的帐号无权读取桶 %[1]q。", b.where.Bucket, b.where.Secret)).Because(err)
	case status >= 400 && status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout:
		return fault.New(fault.Invalid, "StoreRefuses", fault.T("The store refuses: %.200s.", "对象存储拒绝了请求：%.200s。", code)).Because(err)
	}
	return fmt.Errorf("bucket %s: %w", b.where.Bucket, err)
}
