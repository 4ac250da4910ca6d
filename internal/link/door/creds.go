package door

import (
	"context"
	"errors"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// Except leaves calls whose names begin so to who serves them: agents show a certificate and have no replica's token.
func Except(prefix string, check grpc.StreamServerInterceptor) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, call *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if strings.HasPrefix(call.FullMethod, prefix) {
			return next(srv, stream)
		}
		return check(srv, stream, call, next)
	}
}

// Creds lets handlers see what a connection shows.
func Creds() credentials.TransportCredentials { return shown{} }

// shown lets handlers see which certificate a caller showed; connections are made safe below gRPC.
type shown struct{}

func (shown) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return conn, ShownBy(conn), nil
}

func (shown) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("this is a server's side")
}

func (shown) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "fermi"}
}
func (shown) Clone() credentials.TransportCredentials { return shown{} }
func (shown) OverrideServerName(string) error         { return nil }
