package p2p

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

func TestZapGoesToSlog(t *testing.T) {
	var out bytes.Buffer
	h := slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})
	l := zap.New(zapCore{ctx: t.Context(), h: quiet{h, slog.LevelWarn}}).Named("dht").With(zap.String("a", "b")).Sugar()
	l.Debugw("too fine")
	l.Infow("too chatty")
	l.Warnw("heard", "peer", "12D3")
	got := out.String()
	for _, want := range []string{"level=WARN", "msg=heard", "logger=dht", "a=b", "peer=12D3"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if strings.Contains(got, "too") {
		t.Errorf("a line below warnings was heard: %q", got)
	}
}

func TestDebugHearsAll(t *testing.T) {
	var out bytes.Buffer
	h := quiet{slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}), slog.LevelWarn}
	zap.New(zapCore{ctx: t.Context(), h: h}).Info("fine")
	slog.New(h.WithGroup("g")).Info("chatty", "x", 1)
	for _, want := range []string{"msg=fine", "msg=chatty", "g.x=1"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in %q", want, out.String())
		}
	}
}

// TestIdentifyIsQuiet: a peer that leaves before it is identified is no warning; an error is heard.
func TestIdentifyIsQuiet(t *testing.T) {
	var out bytes.Buffer
	h := quiet{slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo}), slog.LevelWarn}
	for _, logger := range []string{identifyLogger, "net/other"} {
		l := slog.New(h).With("logger", logger).With("a", "b")
		l.Warn("warned")
		l.Error("failed")
	}
	if got := out.String(); strings.Count(got, "warned") != 1 || strings.Count(got, "failed") != 2 ||
		!strings.Contains(got, "msg=warned logger=net/other") {
		t.Errorf("%q", got)
	}
}

// TestLowestLevel: the core logs the level to which a logger of the library is set.
func TestLowestLevel(t *testing.T) {
	for want, h := range map[zapcore.Level]slog.Handler{
		zapcore.DebugLevel: slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelDebug}),
		zapcore.WarnLevel:  slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelInfo}),
		zapcore.ErrorLevel: slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError}),
		zapcore.FatalLevel: slog.DiscardHandler,
	} {
		core := zapCore{ctx: t.Context(), h: quiet{h, slog.LevelWarn}}
		if got := core.lowest(); got != want {
			t.Errorf("lowest is %s, want %s", got, want)
		}
		if _, err := zapcore.NewIncreaseLevelCore(core, core.lowest()); err != nil {
			t.Errorf("%s: %v", want, err)
		}
	}
}
