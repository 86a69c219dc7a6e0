package node

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"
)

// TestElsewhereIsTold: the log once an hour, the gate for an hour.
func TestElsewhereIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &bytes.Buffer{}
		e := newDuplicates(slog.New(slog.NewTextHandler(log, nil)), prometheus.NewRegistry())
		if !e.gate().Ready() {
			t.Error("the gate is shut before anything was seen")
		}
		for range 3 {
			e.noteRecord(time.Now(), []ma.Multiaddr{ma.StringCast("/ip4/192.0.2.7/tcp/4901")})
		}
		if r := e.gate(); r.Ready() || !strings.Contains(r.Fix, "192.0.2.7") ||
			strings.Count(log.String(), "level=ERROR") != 1 {
			t.Errorf("%+v; %s", r, log)
		}
		time.Sleep(duplicateFor + time.Second)
		if !e.gate().Ready() {
			t.Error("the gate stays shut")
		}
		e.noteRecord(time.Now(), nil)
		if strings.Count(log.String(), "level=ERROR") != 2 {
			t.Errorf("the next hour: %s", log)
		}
	})
}
