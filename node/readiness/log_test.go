package readiness

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"allium/gateway/api"
	"allium/internal/env"
)

// TestReadinessIsLogged: each change once, however often it is asked for, and
// none of a node that is stopping.
func TestReadinessIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out,
			&slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}}))
		seeds := api.Gate{Name: "bootstrap", Fix: "wait"}
		space := api.Gate{Name: "store_space", Fix: "make room"}
		var mu sync.Mutex // guards what the log is asked about, and out between steps
		var now api.Readiness
		var stopping bool
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		all.Go(func() {
			Log(ctx, env.Env{Log: log}, func() api.Readiness {
				mu.Lock()
				defer mu.Unlock()
				return now
			}, func() bool {
				mu.Lock()
				defer mu.Unlock()
				return stopping
			})
		})
		time.Sleep(logEvery / 2) // the steps are between two looks
		for _, step := range []struct {
			is       api.Readiness
			stopping bool
			want     string
		}{
			{api.Readiness{Gates: []api.Gate{seeds, {Name: "audit", Ready: true}, space}}, false,
				"level=INFO msg=\"the node is not ready\" reads=false writes=false network=false " +
					"gates=bootstrap,store_space fix=wait\n"},
			{api.Readiness{Gates: []api.Gate{seeds}}, false, ""}, // no less ready than before
			{api.Readiness{Ready: true, Reads: true, Writes: true, Network: true}, false,
				"level=INFO msg=\"the node is ready\"\n"},
			{api.Readiness{Reads: true, Network: true, Gates: []api.Gate{space}}, false,
				"level=WARN msg=\"the node is not ready\" reads=true writes=false network=true gates=store_space " +
					"fix=\"make room\"\n"},
			{api.Readiness{Ready: true, Reads: true, Writes: true, Network: true}, false,
				"level=INFO msg=\"the node is ready\"\n"},
			{api.Readiness{Gates: []api.Gate{{Name: "accepting"}}}, true, ""},
		} {
			mu.Lock()
			out.Reset()
			now, stopping = step.is, step.stopping
			mu.Unlock()
			time.Sleep(10 * logEvery)
			synctest.Wait()
			if out.String() != step.want {
				t.Errorf("%+v: logged %q, want %q", step.is, out.String(), step.want)
			}
		}
	})
}
