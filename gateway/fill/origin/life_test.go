package origin

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"testing"
)

var errAway = errors.New("the network is away")

// TestLife: the end of Deps.Life ends a request that waits for the DNS, the origin or a further try, with its cause,
// and a later request asks nobody, though a connection is idle.
func TestLife(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"dns", "answer", "pause"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			life := NewLife()
			reached := make(chan struct{}, 100)
			r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
				switch q.URL.Path {
				case "/base/good":
					_, _ = w.Write([]byte("good"))
				case "/base/pause":
					w.Header().Set("Retry-After", "1")
					w.WriteHeader(http.StatusServiceUnavailable)
					reached <- struct{}{}
				default:
					reached <- struct{}{}
					<-q.Context().Done()
				}
			}, func(cfg *Config, d *Deps) {
				d.Life = life
				if when == "dns" {
					cfg.URLs = []string{"https://origin.example/"}
					d.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
						if ctx.Err() == nil { // else a dialer would do nothing
							reached <- struct{}{}
						}
						<-ctx.Done()
						return nil, ctx.Err()
					}}
				}
			})
			if when != "dns" {
				if p, _, err := r.get(t, "good"); p != "good" {
					t.Fatal(err)
				}
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, _, err := r.get(t, when); !errors.Is(err, errAway) {
					t.Errorf("%v", err)
				}
			})
			<-reached
			life.End(errAway)
			wg.Wait()
			for len(reached) > 0 { // the two families of addresses are asked at the same time
				<-reached
			}
			asked := r.asked.Load()
			if _, _, err := r.get(t, "good"); !errors.Is(err, errAway) || r.asked.Load() != asked || len(reached) > 0 {
				t.Errorf("%v, %d requests", err, r.asked.Load()-asked)
			}
		})
	}
}
