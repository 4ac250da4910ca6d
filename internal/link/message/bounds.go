package message

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fermi-cluster/fermi/internal/engine"
)

const (
	MaxText = 16 << 10 // bytes of one text field
	MaxName = 128      // bytes of a replica's name, so that it fits file names and blob keys
)

func Refuse(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

var ExitReasons = map[string]bool{
	engine.ReasonSucceeded: true, engine.ReasonNonZero: true, engine.ReasonSignaled: true,
	engine.ReasonOutOfMemory: true, engine.ReasonTimedOut: true, engine.ReasonStopped: true,
	engine.ReasonStartFailed: true, engine.ReasonLauncherLost: true, engine.ReasonLeftEarly: true, engine.ReasonProcessLimit: true, engine.ReasonDiskLimit: true,
}

// CutText shortens s to at most n bytes without cutting a character.
func CutText(s string, n int) string {
	if len(s) <= n {
		return strings.ToValidUTF8(s, "�")
	}
	return strings.ToValidUTF8(s[:n-3], "")
}
