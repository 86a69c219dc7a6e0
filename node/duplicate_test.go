package node

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
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

// TestDuplicateBelieved: one network alone cannot make the node not ready, however often it reports.
func TestDuplicateBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &bytes.Buffer{}
		e := newDuplicates(slog.New(slog.NewTextHandler(log, nil)), prometheus.NewRegistry())
		for i := range 5 {
			at := ma.StringCast(fmt.Sprintf("/ip4/66.0.0.%d/tcp/1", i))
			e.noteSeenBy(peer.ID(fmt.Sprint("stranger ", i)), []ma.Multiaddr{at})
			time.Sleep(time.Second)
		}
		if !e.gate().Ready() || strings.Count(log.String(), "level=WARN") != 1 ||
			strings.Contains(log.String(), "ERROR") {
			t.Errorf("one network: %+v; %s", e.gate(), log)
		}
		time.Sleep(2 * duplicateFor)
		other := []ma.Multiaddr{ma.StringCast("/ip4/8.8.8.8/tcp/1")}
		e.noteSeenBy("other", other)
		if !e.gate().Ready() {
			t.Error("another network, hours later")
		}
		e.noteSeenBy("stranger", []ma.Multiaddr{ma.StringCast("/ip4/66.0.0.1/tcp/1")})
		if e.gate().Ready() || strings.Count(log.String(), "level=ERROR") != 1 {
			t.Errorf("two networks: %+v; %s", e.gate(), log)
		}
	})
}
