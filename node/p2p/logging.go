package p2p

import (
	"context"
	"log/slog"
	"sync"

	golog "github.com/ipfs/go-log/v2"
	"github.com/libp2p/go-libp2p/gologshim"
	"go.uber.org/zap/zapcore"
)

// bridgeOnce guards the libraries' process-wide log settings. go-libp2p keeps the handler
// that it had when it first logged, so the first logger stays.
var bridgeOnce sync.Once

// bridgeLogs sends the logs of go-libp2p (slog) and kad-dht (zap) to l. They log a lot, so
// lines below warn pass only when l logs debug lines.
func bridgeLogs(ctx context.Context, l *slog.Logger) {
	bridgeOnce.Do(func() {
		h := quiet{l.Handler(), slog.LevelWarn}
		gologshim.SetDefaultHandler(h)
		core := zapCore{ctx: context.WithoutCancel(ctx), h: h}
		golog.SetPrimaryCore(core)
		// A logger with a lower level than its core complains on standard error. A level's
		// own name is always valid, so there is no error.
		_ = golog.SetLogLevel("*", core.lowest().String())
	})
}

// identifyLogger is the name of a logger whose warnings are debug lines: it warns whenever a
// connection ends before its peer has said what it is, as at each stop of either.
const identifyLogger = "net/identify"

// quiet is a handler that drops lines below least unless debug lines are wanted.
type quiet struct {
	slog.Handler
	least slog.Level
}

func (q quiet) Enabled(ctx context.Context, l slog.Level) bool {
	if l < q.least && !q.Handler.Enabled(ctx, slog.LevelDebug) {
		return false
	}
	return q.Handler.Enabled(ctx, l)
}

func (q quiet) WithAttrs(as []slog.Attr) slog.Handler {
	for _, a := range as {
		if a.Key == "logger" && a.Value.String() == identifyLogger {
			q.least = slog.LevelError
		}
	}
	return quiet{q.Handler.WithAttrs(as), q.least}
}

func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name), q.least} }

// refreshLogger is the name of a logger whose warnings become debug lines. It warns
// whenever a refresh finds an empty routing table: at every start, and always on the first
// node of a network. Readiness reports this better.
const refreshLogger = "dht/RtRefreshManager"

// zapCore is a zap core that writes to a slog handler. zap passes no context, so every
// line has the values of the context in which the node started.
type zapCore struct {
	ctx context.Context
	h   slog.Handler
}

// Enabled implements zapcore.LevelEnabler. Fatal lines always pass, so that lowest ends.
func (c zapCore) Enabled(l zapcore.Level) bool {
	return l >= zapcore.FatalLevel || c.h.Enabled(c.ctx, slogLevel(l))
}

// lowest returns the lowest level that is logged.
func (c zapCore) lowest() zapcore.Level {
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
