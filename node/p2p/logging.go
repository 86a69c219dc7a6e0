package p2p

import (
	"context"
	"log/slog"
	"sync"

	golog "github.com/ipfs/go-log/v2"
	"github.com/libp2p/go-libp2p/gologshim"
	"go.uber.org/zap/zapcore"
)

// bridgeOnce guards the libraries' process-wide log settings: go-libp2p keeps
// the handler it had at its first line, so the first logger stays.
var bridgeOnce sync.Once

// bridgeLogs sends what go-libp2p (slog) and kad-dht (zap) log to l. They are
// chatty: below warnings they are heard only when l logs debug lines.
func bridgeLogs(ctx context.Context, l *slog.Logger) {
	bridgeOnce.Do(func() {
		h := quiet{l.Handler()}
		gologshim.SetDefaultHandler(h)
		core := zapCore{ctx: context.WithoutCancel(ctx), h: h}
		golog.SetPrimaryCore(core)
		// A logger that is to log more than its core takes complains about itself
		// on standard error. The names are levels, so there is no error.
		_ = golog.SetLogLevel("*", core.least().String())
	})
}

// quiet is a handler that drops lines below warn unless debug lines are wanted.
type quiet struct{ slog.Handler }

func (q quiet) Enabled(ctx context.Context, l slog.Level) bool {
	if l < slog.LevelWarn && !q.Handler.Enabled(ctx, slog.LevelDebug) {
		return false
	}
	return q.Handler.Enabled(ctx, l)
}

func (q quiet) WithAttrs(as []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(as)} }
func (q quiet) WithGroup(name string) slog.Handler    { return quiet{q.Handler.WithGroup(name)} }

// refreshLogger warns whenever a refresh finds an empty routing table: at every
// start, and for the first node of a network always. Readiness says it better.
const refreshLogger = "dht/RtRefreshManager"

// zapCore is a zap core that writes to a slog handler. zap passes no context,
// so all lines have the one of the start of the node.
type zapCore struct {
	ctx context.Context
	h   slog.Handler
}

// Enabled takes the end of the process in any case: see least.
func (c zapCore) Enabled(l zapcore.Level) bool {
	return l >= zapcore.FatalLevel || c.h.Enabled(c.ctx, slogLevel(l))
}

// least is the least level that is taken.
func (c zapCore) least() zapcore.Level {
	l := zapcore.DebugLevel
	for !c.Enabled(l) {
		l++
	}
	return l
}

func (c zapCore) With(fields []zapcore.Field) zapcore.Core {
	return zapCore{ctx: c.ctx, h: c.h.WithAttrs(slogAttrs(fields))}
}

func (c zapCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if e.LoggerName == refreshLogger && e.Level == zapcore.WarnLevel {
		e.Level = zapcore.DebugLevel
	}
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c zapCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	r := slog.NewRecord(e.Time, slogLevel(e.Level), e.Message, e.Caller.PC)
	r.AddAttrs(slog.String("logger", e.LoggerName))
	r.AddAttrs(slogAttrs(fields)...)
	return c.h.Handle(c.ctx, r)
}

func (zapCore) Sync() error { return nil }

func slogLevel(l zapcore.Level) slog.Level {
	switch {
	case l <= zapcore.DebugLevel:
		return slog.LevelDebug
	case l == zapcore.InfoLevel:
		return slog.LevelInfo
	case l == zapcore.WarnLevel:
		return slog.LevelWarn
	}
	return slog.LevelError
}

func slogAttrs(fields []zapcore.Field) []slog.Attr {
	attrs := make([]slog.Attr, 0, len(fields))
	for _, f := range fields {
		enc := zapcore.NewMapObjectEncoder()
		f.AddTo(enc)
		for k, v := range enc.Fields {
			attrs = append(attrs, slog.Any(k, v))
		}
	}
	return attrs
}
