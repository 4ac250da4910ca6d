package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// skipBytes is how much of a body is read over rather than asked for anew.
const skipBytes = 256 << 10

// Open reads an object: the request is made now, its body read as it is wanted.
func (s *Store) Open(ctx context.Context, key string) (io.ReadSeekCloser, blob.Info, error) {
	if err := blob.CheckKey(key); err != nil {
		return nil, blob.Info{}, err
	}
	r := &reader{ctx: ctx, store: s, key: key}
	if err := r.request(); err != nil {
		return nil, blob.Info{}, err
	}
	return r, r.info, nil
}

// reader is one version of an object.
type reader struct {
	ctx   context.Context
	store *Store
	key   string
	info  blob.Info
	etag  *string
	at    int64
	body  io.ReadCloser // stands at at; nil at the end
}

// request asks for what is from at on.
func (r *reader) request() error {
	in := &awss3.GetObjectInput{Bucket: r.store.bucket, Key: r.store.key(r.key), IfMatch: r.etag}
	if r.at > 0 {
		in.Range = aws.String(fmt.Sprintf("bytes=%d-", r.at))
	}
	out, err := r.store.client.GetObject(r.ctx, in)
	if err != nil {
		if apiCode(err) == "PreconditionFailed" {
			return fault.New(fault.Unavailable, "ObjectChanged", fault.T(
				"The object %q was replaced while it was read.", "对象 %q 在读取时被替换。", r.key)).Because(err)
		}
		return sick(err, r.key)
	}
	r.body = out.Body
	if r.etag == nil {
		r.etag = out.ETag
		r.info = blob.Info{Key: r.key, Size: aws.ToInt64(out.ContentLength), Modified: aws.ToTime(out.LastModified)}
	}
	return nil
}

// Read goes on after a connection that broke.
func (r *reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for try := 1; ; try++ {
		if r.at >= r.info.Size {
			return 0, io.EOF
		}
		if r.body == nil {
			if err := r.request(); err != nil {
				return 0, err
			}
		}
		n, err := r.body.Read(p)
		r.at += int64(n)
		if n > 0 || err == nil {
			return n, nil // an error comes again
		}
		r.drop()
		if try == attempts || r.ctx.Err() != nil {
			return 0, sick(errors.Join(err, r.ctx.Err()), r.key)
		}
	}
}

func (r *reader) drop() {
	if r.body != nil {
		r.body.Close()
		r.body = nil
	}
}

// Seek asks for the new place at once, so that what is read is what was there.
func (r *reader) Seek(to int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		to += r.at
	case io.SeekEnd:
		to += r.info.Size
	}
	if to < 0 {
		return 0, fs.ErrInvalid
	}
	if gap := to - r.at; r.body != nil && gap >= 0 && gap <= skipBytes {
		n, err := io.CopyN(io.Discard, r.body, min(gap, r.info.Size-r.at))
		r.at += n
		if err == nil {
			r.at = to
			return to, nil
		}
	}
	r.drop()
	r.at = to
	if to >= r.info.Size {
		return to, nil
	}
	return to, r.request()
}

func (r *reader) Close() error {
	r.drop()
	return nil
}

func apiCode(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// sick turns what the server or the network said into a fault; nil stays nil.
func sick(err error, what string) error {
	var already *fault.Error
	var response *smithyhttp.ResponseError
	var network net.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &already):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fault.From(err)
	}
	status := 0
	if errors.As(err, &response) {
		status = response.HTTPStatusCode()
	}
	switch code := apiCode(err); {
	case code == "NoSuchKey" || code == "NotFound" || status == 404 && code != "NoSuchBucket":
		return fault.New(fault.NotFound, "NoSuchObject", fault.T("There is no object %q.", "对象 %q 不存在。", what)).Because(err)
	case code == "PreconditionFailed" || code == "ConditionalRequestConflict":
		return blob.Exists(what).Because(err)
	case status == 401 || status == 403:
		return fault.New(fault.Forbidden, "StoreForbids", fault.T(
			"The object store does not allow this.", "对象存储拒绝了该操作。")).
			WithHint(fault.T("Look at the credentials and at what they may do with the bucket.", "请检查凭据及其对桶的权限。")).Because(err)
	case status == 507 || code == "QuotaExceeded":
		return fault.New(fault.Full, "StoreFull", fault.T("The object store is full.", "对象存储已满。")).Because(err)
	case status == 429 || status >= 500 || errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF):
		return fault.New(fault.Unavailable, "StoreAway", fault.T(
			"The object store could not be reached, or did not answer.", "无法访问对象存储，或其没有响应。")).Because(err)
	}
	return fault.New(fault.Internal, "BlobFailed", fault.T("The object store failed on %q.", "对象存储处理 %q 失败。", what)).Because(err)
}
