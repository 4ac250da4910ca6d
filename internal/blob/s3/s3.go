package s3

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	// partBytes is what is held of a body whose length is not known; S3 takes 10,000 parts of it.
	partBytes = 16 << 20
	// onceBytes is the most that one request carries.
	onceBytes = 1 << 30
	attempts  = 5
)

// Config says which bucket, and who asks.
type Config struct {
	Endpoint, Region, Bucket string
	// Prefix is the folder in the bucket; "" is all of it.
	Prefix string
	// Credentials is asked for each request that needs it: they may change.
	Credentials func(ctx context.Context) (id, secret, token string, err error)
	// Sign, in the place of Credentials, has somebody prove a request who has them: a Notary. It is called for each request, from several goroutines at once.
	Sign func(ctx context.Context, r *http.Request) error
	// Client is for another network; nil is a plain one.
	Client *http.Client
	// Silence is how long nothing may move in the middle of a body, in either direction, until the request is given up and
	// made again; 30 seconds unless told.
	Silence time.Duration
}

// Store is a folder of a bucket.
type Store struct {
	client *awss3.Client
	bucket *string
	prefix string
	signed bool // by somebody else
}

var (
	_ blob.Store   = (*Store)(nil)
	_ blob.Creator = (*Store)(nil)
)

// Open asks nothing of the server.
func Open(cfg Config) (*Store, error) {
	if cfg.Prefix != "" {
		if err := blob.CheckKey(cfg.Prefix); err != nil {
			return nil, err
		}
		cfg.Prefix += "/"
	}
	if cfg.Bucket == "" || cfg.Region == "" || cfg.Credentials == nil && cfg.Sign == nil {
		return nil, fault.New(fault.Invalid, "BadBucket", fault.T(
			"An S3 store needs a bucket, a region and credentials.", "S3 存储需要桶、区域和凭据。"))
	}
	if cfg.Client == nil {
		cfg.Client = &http.Client{Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 16, IdleConnTimeout: 30 * time.Second,
			TLSHandshakeTimeout: 20 * time.Second,
		}}
	}
	client := *cfg.Client
	client.Transport = &watched{cmp.Or(client.Transport, http.DefaultTransport), cmp.Or(cfg.Silence, silence), answer}
	options := awss3.Options{
		Region: cfg.Region, UsePathStyle: true, HTTPClient: &client,
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts, o.MaxBackoff, o.RateLimiter = attempts, 2*time.Second, ratelimit.None
			o.Retryables = append(o.Retryables, retry.RetryableErrorCode{Codes: busy})
		}),
		Credentials: aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
			id, secret, token, err := cfg.Credentials(ctx)
			return aws.Credentials{AccessKeyID: id, SecretAccessKey: secret, SessionToken: token}, err
		}),
	}
	if cfg.Endpoint != "" {
		options.BaseEndpoint = &cfg.Endpoint
	}
	if cfg.Sign != nil {
		options.HTTPSignerV4 = signer(cfg.Sign)
		options.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "none", SecretAccessKey: "none"}, nil
		})
	}
	return &Store{client: awss3.New(options), bucket: &cfg.Bucket, prefix: cfg.Prefix, signed: cfg.Sign != nil}, nil
}

// busy are answers of servers that met another request on the same key. The second is that of a
// server over plain folders, when the last object of one is deleted while another is put there.
var busy = map[string]struct{}{"OperationAborted": {}, "ExistingObjectIsDirectory": {}}

func (s *Store) key(key string) *string { return aws.String(s.prefix + key) }

// Put writes or replaces an object.
func (s *Store) Put(ctx context.Context, key string, r io.Reader) (blob.Info, error) {
	return s.put(ctx, key, r, nil)
}

// Create writes an object where there is none.
func (s *Store) Create(ctx context.Context, key string, r io.Reader) (blob.Info, error) {
	for try := 0; ; try++ {
		info, err := s.put(ctx, key, r, aws.String("*"))
		again, ok := r.(io.Seeker)
		// Two at once: neither may have succeeded.
		if apiCode(err) != "ConditionalRequestConflict" || !ok || try == attempts {
			return info, err
		}
		if _, err := again.Seek(0, io.SeekStart); err != nil {
			return blob.Info{}, sick(err, key)
		}
	}
}

func (s *Store) put(ctx context.Context, key string, r io.Reader, ifNone *string) (blob.Info, error) {
	if err := blob.CheckKey(key); err != nil {
		return blob.Info{}, err
	}
	body, size, err := once(r)
	if err != nil {
		return blob.Info{}, sick(err, key)
	}
	if body == nil {
		return s.multipart(ctx, key, r, ifNone)
	}
	out, err := s.client.PutObject(ctx, &awss3.PutObjectInput{
		Bucket: s.bucket, Key: s.key(key), Body: body, ContentLength: &size, IfNoneMatch: ifNone,
	})
	if err != nil {
		return blob.Info{}, sick(err, key)
	}
	return blob.Info{Key: key, Size: size, Modified: serverTime(out.ResultMetadata)}, nil
}

// once gives the rest of r as a body that can be sent again, where its length is known and one
// request can carry it.
func once(r io.Reader) (io.ReadSeeker, int64, error) {
	seeker, ok := r.(io.ReadSeeker)
	if !ok {
		return nil, 0, nil
	}
	at, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, 0, err
	}
	end, err := seeker.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, 0, err
	}
	if _, err := seeker.Seek(at, io.SeekStart); err != nil {
		return nil, 0, err
	}
	if end-at > onceBytes {
		return nil, 0, nil
	}
	return seeker, end - at, nil
}

// multipart sends a body in parts. One that fits into the first goes by one plain request.
func (s *Store) multipart(ctx context.Context, key string, r io.Reader, ifNone *string) (blob.Info, error) {
	buf := make([]byte, partBytes)
	n, err := io.ReadFull(r, buf)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return s.put(ctx, key, bytes.NewReader(buf[:n]), ifNone)
	}
	if err != nil {
		return blob.Info{}, sick(err, key)
	}
	begun, err := s.client.CreateMultipartUpload(ctx, &awss3.CreateMultipartUploadInput{Bucket: s.bucket, Key: s.key(key)})
	if err != nil {
		return blob.Info{}, sick(err, key)
	}
	parts, size, err := s.sendParts(ctx, key, begun.UploadId, buf, r)
	if err == nil {
		var out *awss3.CompleteMultipartUploadOutput
		out, err = s.client.CompleteMultipartUpload(ctx, &awss3.CompleteMultipartUploadInput{
			Bucket: s.bucket, Key: s.key(key), UploadId: begun.UploadId, IfNoneMatch: ifNone,
			MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
		})
		if err == nil {
			return blob.Info{Key: key, Size: size, Modified: serverTime(out.ResultMetadata)}, nil
		}
	}
	// Also when ctx has ended: parts that stay behind are paid for.
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	_, abort := s.client.AbortMultipartUpload(clean, &awss3.AbortMultipartUploadInput{Bucket: s.bucket, Key: s.key(key), UploadId: begun.UploadId})
	return blob.Info{}, sick(errors.Join(err, abort), key)
}

// sendParts sends the full buffer, and then what r still gives.
func (s *Store) sendParts(ctx context.Context, key string, id *string, buf []byte, r io.Reader) ([]types.CompletedPart, int64, error) {
	var parts []types.CompletedPart
	var size int64
	for n, ended := len(buf), false; n > 0; {
		number := aws.Int32(int32(len(parts) + 1))
		out, err := s.client.UploadPart(ctx, &awss3.UploadPartInput{
			Bucket: s.bucket, Key: s.key(key), UploadId: id, PartNumber: number, Body: bytes.NewReader(buf[:n]),
		})
		if err != nil {
			return nil, 0, err
		}
		parts = append(parts, types.CompletedPart{
			ETag: out.ETag, PartNumber: number, ChecksumCRC32: out.ChecksumCRC32,
		})
		size += int64(n)
		if ended {
			break
		}
		n, err = io.ReadFull(r, buf)
		ended = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !ended {
			return nil, 0, err
		}
	}
	return parts, size, nil
}

// serverTime is the server's clock when it answered.
func serverTime(meta middleware.Metadata) time.Time {
	if at, ok := awsmiddleware.GetServerTime(meta); ok {
		return at
	}
	return time.Now()
}

// List returns a page of objects in key order.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]blob.Info, error) {
	if err := blob.CheckPrefix(prefix); err != nil {
		return nil, err
	}
	limit = min(max(limit, 1), 10_000)
	in := &awss3.ListObjectsV2Input{Bucket: s.bucket, Prefix: s.key(prefix)}
	if after != "" {
		in.StartAfter = s.key(after)
	}
	var found []blob.Info
	for len(found) < limit {
		in.MaxKeys = aws.Int32(int32(min(limit-len(found), 1000)))
		out, err := s.client.ListObjectsV2(ctx, in)
		if err != nil {
			return nil, sick(err, prefix)
		}
		for _, o := range out.Contents {
			key := strings.TrimPrefix(aws.ToString(o.Key), s.prefix)
			if key > after && blob.CheckKey(key) == nil {
				found = append(found, blob.Info{Key: key, Size: aws.ToInt64(o.Size), Modified: aws.ToTime(o.LastModified)})
			}
		}
		if !aws.ToBool(out.IsTruncated) || out.NextContinuationToken == nil {
			break
		}
		in.ContinuationToken = out.NextContinuationToken
	}
	return found, nil
}

// Delete removes an object, or with a final "/" all under it.
func (s *Store) Delete(ctx context.Context, key string) error {
	name, tree := strings.CutSuffix(key, "/")
	if err := blob.CheckKey(name); err != nil {
		return err
	}
	if !tree {
		return s.deleteOne(ctx, key)
	}
	for {
		found, err := s.List(ctx, key, "", 1000)
		if err != nil || len(found) == 0 {
			return err
		}
		if s.signed { // who signs sees the keys of single ones alone
			for _, info := range found {
				if err := s.deleteOne(ctx, info.Key); err != nil {
					return err
				}
			}
			continue
		}
		var ids []types.ObjectIdentifier
		for _, info := range found {
			ids = append(ids, types.ObjectIdentifier{Key: s.key(info.Key)})
		}
		out, err := s.client.DeleteObjects(ctx, &awss3.DeleteObjectsInput{Bucket: s.bucket, Delete: &types.Delete{Objects: ids, Quiet: aws.Bool(true)}})
		if err != nil {
			return sick(err, key)
		}
		if len(out.Errors) > 0 {
			return sick(errors.New(aws.ToString(out.Errors[0].Code)+": "+aws.ToString(out.Errors[0].Message)), key)
		}
	}
}

func (s *Store) deleteOne(ctx context.Context, key string) error {
	_, err := s.client.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: s.bucket, Key: s.key(key)})
	if err = sick(err, key); fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
