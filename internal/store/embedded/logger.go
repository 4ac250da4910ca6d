package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// death is how etcd ends itself: its logger's Fatal, which would call os.Exit, and its Panic.
// The first one is kept, and the goroutine that called never goes on, because the code after a
// Fatal has no idea that it can be reached.
type death struct {
	happened chan struct{}
	once     sync.Once
	cause    error
}

func newDeath() *death { return &death{happened: make(chan struct{})} }

// err is why; only after happened is closed.
func (d *death) err() error { return d.cause }

// OnWrite is called by zap instead of exiting or panicking.
func (d *death) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	d.once.Do(func() {
		d.cause = errors.New(entry.Message)
		for _, f := range fields {
			if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
				d.cause = fmt.Errorf("%s: %w", entry.Message, err)
			}
		}
		close(d.happened)
	})
	select {}
}

// newZap is a zap logger that writes errors into slog and dies as told.
func newZap(log *slog.Logger, d *death) *zap.Logger {
	return zap.New(bridge{log: log}, zap.WithFatalHook(d), zap.WithPanicHook(d))
}

// bridge is a zap core over slog. etcd's warnings are about its own slowness and about settings
// that we chose: only errors are for people.
type bridge struct {
	log    *slog.Logger
	fields []zapcore.Field
}

func (b bridge) Enabled(l zapcore.Level) bool { return l >= zapcore.ErrorLevel }

func (b bridge) With(fields []zapcore.Field) zapcore.Core {
	return bridge{b.log, append(b.fields[:len(b.fields):len(b.fields)], fields...)}
}

func (b bridge) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if b.Enabled(e.Level) {
		return ce.AddCore(e, b)
	}
	return ce
}

// usual are errors to etcd and ordinary to us: its listeners end when we close it, and the first
// start has no term yet.
var usual = []string{"setting up serving from embedded etcd failed.", "failed to update storage version"}

func (b bridge) Write(e zapcore.Entry, fields []zapcore.Field) error {
	level := slog.LevelError
	if slices.Contains(usual, e.Message) {
		level = slog.LevelDebug
	}
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range append(b.fields[:len(b.fields):len(b.fields)], fields...) {
		f.AddTo(enc)
	}
	b.log.LogAttrs(context.Background(), level, "etcd", slog.String("said", e.Message), slog.Any("fields", enc.Fields))
	return nil
}

func (b bridge) Sync() error { return nil }
