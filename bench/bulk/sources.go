package bulk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"allium/bench/bed"
	"allium/bench/measure"
)

// The providers that a large file comes from.
const (
	sourcesNodes = 3
	sourcesRate  = 100 // MB/s that each sends at most
	checkpointed = 64  // MiB that a killed fetch may have to fetch again
)

// slow lets nodes that are started send no more than so many MB/s.
func slow(s *bed.Settings, rate int) *bed.Settings {
	return s.With(fmt.Sprintf("ALLIUM_NODE__UPLOAD_RATE=%dMB", rate), "ALLIUM_NODE__LIMIT_LAN=true")
}

// startProviders starts nodes that hold the large file and send it at most at
// rate, and returns them and its address.
func startProviders(
	ctx context.Context, s *bed.Settings, n, rate int,
) (nodes []*measure.Process, key string, err error) {
	if _, err := os.Stat(s.Large()); err != nil {
		if err := bed.RandomFile(s.Large(), s.Size); err != nil {
			return nil, "", err
		}
	}
	var bootstrap []string
	homes := make([]string, n)
	for i := range homes {
		homes[i] = filepath.Join(s.Dir, fmt.Sprintf("source%d", i))
		added, _, err := s.Add(ctx, homes[i], s.Large())
		if err != nil {
			return nil, "", err
		}
		key = added
		p, err := slow(s, rate).StartNode(ctx, homes[i], bootstrap...)
		if err != nil {
			return nil, "", err
		}
		nodes, bootstrap = append(nodes, p), []string{p.Addr}
	}
	for _, home := range homes[1:] { // the first one's address they know
		if _, err := s.Run(ctx, home, "connect", nodes[0].Addr); err != nil {
			return nil, "", err
		}
	}
	for _, home := range homes {
		if n == 1 {
			break // no other node to announce it to: the fetching node connects
		}
		if _, err := s.Run(ctx, home, "announce", "-q", key); err != nil {
			return nil, "", err
		}
	}
	return nodes, key, nil
}

// Sources fetches the large file from several slow providers.
func Sources(ctx context.Context, s *bed.Settings) ([]measure.Row, error) {
	nodes, key, err := startProviders(ctx, s, sourcesNodes, sourcesRate)
	if err != nil {
		return nil, err
	}
	rate := measure.Row{What: fmt.Sprintf("fetch from %d × %d MB/s: rate", sourcesNodes, sourcesRate), Unit: "MB/s",
		Target: "≥ 270"}
	rss := measure.Row{What: "fetch from several: peak RSS of the fetching node", Unit: "MB", Target: "≤ 120"}
	for range s.Rounds {
		got, err := s.FetchCold(ctx, bed.OnTCP, nodes[0], key)
		if err != nil {
			return nil, err
		}
		rate.Values = append(rate.Values, float64(s.Size)/1e6/got.Seconds)
		rss.Values = append(rss.Values, bed.MB(got.RSS))
	}
	return []measure.Row{rate, rss}, bed.StopAll(nodes)
}

// Resume kills a fetching node half-way, starts it again, and measures what
// was fetched twice.
func Resume(ctx context.Context, s *bed.Settings) ([]measure.Row, error) {
	nodes, key, err := startProviders(ctx, s, 1, sourcesRate)
	if err != nil {
		return nil, err
	}
	twice := measure.Row{What: "kill -9 half-way: fetched twice", Unit: "MiB",
		Target: fmt.Sprintf("≤ %d", checkpointed)}
	for range s.Rounds {
		again, err := killedFetch(ctx, s, nodes[0].Addr, key)
		if err != nil {
			return nil, err
		}
		twice.Values = append(twice.Values, float64(again)/(1<<20))
	}
	return []measure.Row{twice}, bed.StopAll(nodes)
}

// arrived returns the number of bytes of partial objects that a node has written, without their outboards.
func arrived(home string) (n int64, err error) {
	parts, err := filepath.Glob(filepath.Join(home, "store", "part", "*"))
	if err != nil {
		return 0, err
	}
	for _, name := range parts {
		if filepath.Ext(name) == ".ob" {
			continue
		}
		var st unix.Stat_t
		if err := unix.Stat(name, &st); err != nil && !errors.Is(err, os.ErrNotExist) {
			return 0, err
		}
		n += st.Blocks * 512
	}
	return n, nil
}

// killedFetch returns how many bytes came twice.
func killedFetch(ctx context.Context, s *bed.Settings, from, key string) (twice int64, err error) {
	home := filepath.Join(s.Dir, "resumer")
	if err := os.RemoveAll(home); err != nil {
		return 0, err
	}
	to, err := s.StartNode(ctx, home, from)
	if err != nil {
		return 0, err
	}
	if _, err := s.Run(ctx, home, "connect", from); err != nil {
		return 0, err
	}
	fetching, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	var cut sync.WaitGroup
	defer cut.Wait()
	defer stop()
	cut.Go(func() {
		defer close(ended)
		_, _ = bed.Run(fetching, s.Allium, "--home", home, "get", key, "--store-only") // it is cut off
	})
	var held int64
	for held < s.Size/2 {
		select {
		case <-ended:
			return 0, fmt.Errorf("the fetch ended with %d bytes here", held)
		case <-time.After(10 * time.Millisecond):
		}
		if held, err = arrived(home); err != nil {
			return 0, err
		}
	}
	if err := to.Cmd.Process.Kill(); err != nil {
		return 0, err
	}
	_ = to.Cmd.Wait() // it was killed
	<-ended
	if held, err = arrived(home); err != nil {
		return 0, err
	}
	if to, err = s.StartNode(ctx, home, from); err != nil {
		return 0, err
	}
	if _, err := s.Run(ctx, home, "connect", from); err != nil {
		return 0, err
	}
	out, err := s.Run(ctx, home, "get", key, "--store-only", "--json")
	if err != nil {
		return 0, err
	}
	var f struct {
		New     int64 `json:"new"`
		Resumed int64 `json:"resumed"`
	}
	if err := json.Unmarshal([]byte(out.Out), &f); err != nil {
		return 0, err
	}
	if f.New+f.Resumed != s.Size {
		return 0, fmt.Errorf("%d bytes resumed and %d fetched of %d", f.Resumed, f.New, s.Size)
	}
	_, err = to.Stop()
	return max(0, held-f.Resumed), err
}
