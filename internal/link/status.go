package link

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fermi-cluster/fermi/internal/fault"
)

var grpcCodes = map[fault.Code]codes.Code{
	fault.Invalid: codes.InvalidArgument, fault.Unauthenticated: codes.Unauthenticated,
	fault.Forbidden: codes.PermissionDenied, fault.NotFound: codes.NotFound,
	fault.Conflict: codes.Aborted, fault.TooLarge: codes.ResourceExhausted,
	fault.TooMany: codes.Unavailable, fault.Full: codes.Unavailable,
	fault.Unavailable: codes.Unavailable, fault.Timeout: codes.DeadlineExceeded,
	fault.Internal: codes.Internal,
}

// Status is what a launcher is told of a failure: the code and the safe message.
func Status(err error) error {
	if err == nil {
		return nil
	}
	if s, ok := status.FromError(err); ok && s.Code() != codes.Unknown {
		return err
	}
	f := fault.From(err)
	return status.Error(grpcCodes[f.Code], f.Reason+": "+f.Message.In("en"))
}

// Permanent says that asking again can't help: the request itself was refused.
func Permanent(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	switch status.Code(err) {
	case codes.InvalidArgument, codes.PermissionDenied, codes.NotFound, codes.FailedPrecondition,
		codes.ResourceExhausted, codes.OutOfRange:
		return true
	}
	return false
}
