package signature

import (
	"context"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// Desk is a server's side. Safe for concurrent use.
type Desk struct {
	// Sign adds to a request of a replica what proves it. Fault Forbidden: it may not make it.
	Sign func(ctx context.Context, of link.Parts, r *http.Request) error
}

const (
	service = "fermi.link.v1.Signature"
	method  = "Sign"
	// maxHeaders and maxText bound a request.
	maxHeaders = 40
	maxText    = 8 << 10
)

// Register is for Hub.Serve, which lets nobody in without the token of a replica. It does so for streams.
func (d *Desk) Register(r grpc.ServiceRegistrar) {
	r.RegisterService(&grpc.ServiceDesc{
		ServiceName: service, HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{StreamName: method, ServerStreams: true, Handler: func(_ any, stream grpc.ServerStream) error {
			var ask structpb.Struct
			if err := stream.RecvMsg(&ask); err != nil {
				return err
			}
			out, err := d.sign(stream.Context(), &ask)
			if err != nil {
				return link.Status(err)
			}
			return stream.SendMsg(out)
		}}},
	}, d)
}

// What is said of a request. Its body stays where it is: its hash, or that it has none, is a header.
const (
	keyMethod = "method"
	keyURL    = "url"
	keyLength = "length"
	keyHeader = "header"
)

// sign answers with the headers that the request has now.
func (d *Desk) sign(ctx context.Context, ask *structpb.Struct) (*structpb.Struct, error) {
	f := ask.GetFields()
	headers := f[keyHeader].GetStructValue().GetFields()
	url, length := f[keyURL].GetStringValue(), f[keyLength].GetNumberValue()
	if len(headers) > maxHeaders || len(url) > maxText || length < 0 || length > 1<<40 {
		return nil, status.Error(codes.InvalidArgument, "no request that could be signed")
	}
	r, err := http.NewRequestWithContext(ctx, f[keyMethod].GetStringValue(), url, nil)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, "no request that could be signed")
	}
	for name, value := range headers {
		if len(name)+len(value.GetStringValue()) > maxText {
			return nil, status.Error(codes.InvalidArgument, "a header is too long")
		}
		r.Header.Add(name, value.GetStringValue())
	}
	r.ContentLength = int64(length)
	if err := d.Sign(ctx, link.Caller(ctx), r); err != nil {
		return nil, err
	}
	return structOf(r.Header)
}

func structOf(h http.Header) (*structpb.Struct, error) {
	out := map[string]any{}
	for name, values := range h {
		if len(values) > 0 {
			out[name] = values[0]
		}
	}
	return structpb.NewStruct(out)
}

// asked is what is said of a request.
func asked(r *http.Request) (*structpb.Struct, error) {
	headers, err := structOf(r.Header)
	if err != nil {
		return nil, err
	}
	return &structpb.Struct{Fields: map[string]*structpb.Value{
		keyMethod: structpb.NewStringValue(r.Method), keyURL: structpb.NewStringValue(r.URL.String()), keyLength: structpb.NewNumberValue(float64(max(r.ContentLength, 0))),
		keyHeader: structpb.NewStructValue(headers),
	}}, nil
}

// Source is a launcher's link that has requests signed, too.
type Source struct{ *link.Client }

// Sign adds to a request what proves it. Fault Forbidden: it may not be made; Unavailable: no server answers now.
func (s Source) Sign(ctx context.Context, r *http.Request) error {
	ask, err := asked(r)
	if err != nil {
		return err
	}
	var out structpb.Struct
	err = s.Client.Bulk(func(conn *grpc.ClientConn) error { return call(ctx, conn, ask, &out) })
	switch {
	case link.Permanent(err):
		return fault.New(fault.Forbidden, "NotSigned", fault.T("The server does not sign this request to the store.", "服务器未对该存储请求签名。")).Because(err)
	case err != nil:
		return fault.New(fault.Unavailable, "NobodySigns", fault.T("No server answers that could sign a request to the store.", "没有可为存储请求签名的服务器响应。")).Because(err)
	}
	for name, value := range out.GetFields() {
		r.Header.Set(name, value.GetStringValue())
	}
	return nil
}

func call(ctx context.Context, conn *grpc.ClientConn, ask, out *structpb.Struct) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/"+service+"/"+method)
	if err == nil {
		err = stream.SendMsg(ask)
	}
	if err == nil {
		err = stream.CloseSend()
	}
	if err != nil {
		return err
	}
	return stream.RecvMsg(out)
}
