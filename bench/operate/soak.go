package main

import (
	"archive/tar"
	"bytes"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"allium/bench/bed"
	"allium/bench/measure"
	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// The soak: mixed work on three nodes at a share of what they can do, among peers that come and go.
const (
	soakNodes   = 3
	soakShare   = 0.8              // of the capacity, which the warm-up measures
	soakLimit   = time.Minute      // for an operation
	soakPins    = 40               // the oldest pin goes when there are more
	soakLargest = 4 << 20          // bytes of a file
	soakStore   = "512MiB"         // of each node: the rest is evicted
	soakGuest   = 30 * time.Second // a peer comes that often, and goes
	soakReload  = time.Minute      // each node reads its configuration again that often, with another value
	soakRestart = 2 * time.Minute  // the neighbour, which is asked too, is started again that often
)

// soak is the work so far.
type soak struct {
	s     *bed.Settings
	nodes []*measure.Process
	apis  []*client.Client
	files []b3.Root // newest last
	trees []b3.Root
	pins  []soakPin
	ended map[string]int // operations by name and outcome

	neighbour *measure.Process
	reloads   int
	indexed   bool          // the indexes have taken all small files of the warm-up
	warmed    time.Duration // how long the warm-up took
}

// soakPin is a pin that the soak made.
type soakPin struct {
	node int
	root b3.Root
}

// benchSoak works on three nodes for s.Hold and says whether what they hold
// grows: of each, what it was half-way and at the end, and by how much it grows in ten minutes.
func benchSoak(ctx context.Context, s *bed.Settings) (rows []measure.Row, err error) {
	k := &soak{s: s.With("ALLIUM_STORE__MAX_BYTES=" + soakStore), ended: map[string]int{}}
	if k.neighbour, err = k.s.StartNode(ctx, k.home("neighbour")); err != nil {
		return nil, err
	}
	for i := range soakNodes {
		seeds := []string{k.neighbour.Addr}
		if i > 0 {
			seeds = append(seeds, k.nodes[0].Addr)
		}
		p, api, err := k.start(ctx, fmt.Sprintf("soak%d", i), seeds...)
		if err != nil {
			return nil, err
		}
		defer api.Close()
		k.nodes, k.apis = append(k.nodes, p), append(k.apis, api)
	}
	samples, err := k.work(ctx)
	if err != nil {
		return nil, err
	}
	failed, all := 0, 0
	for _, name := range slices.Sorted(maps.Keys(k.ended)) {
		fmt.Printf("soak: %-30s %d\n", name, k.ended[name])
		all += k.ended[name]
		_, outcome, _ := strings.Cut(name, ": ")
		if outcome != status.OK.String() && outcome != status.NotFound.String() { // a tree that was collected
			failed += k.ended[name]
		}
	}
	rows = append(rows, measure.Single("soak: warm-up", "s", "", k.warmed.Seconds()),
		measure.Single("soak: operations", "", "", float64(all)),
		measure.Single("soak: operations that failed", "", "0", float64(failed)))
	if err := k.neighbour.End(); err != nil {
		return nil, err
	}
	for i, p := range k.nodes {
		if err := p.End(); err != nil {
			return nil, err
		}
		rows = append(rows, growth(fmt.Sprintf("soak: node %d: ", i), samples[i])...)
	}
	return rows, nil
}

func (k *soak) home(name string) string { return filepath.Join(k.s.Dir, name) }

// start starts a node in a home of that name.
func (k *soak) start(ctx context.Context, name string, seeds ...string) (*measure.Process, *client.Client, error) {
	home := k.home(name)
	socket, err := api.SocketPath(home)
	if err != nil {
		return nil, nil, err
	}
	p, err := k.s.StartNode(ctx, home, seeds...)
	if err != nil {
		return nil, nil, err
	}
	api, err := client.New(socket)
	return p, api, err
}

// work warms up, runs operations at a share of the rate of the warm-up, and takes a sample of each node every minute,
// or sixty of them when the soak is shorter than an hour.
func (k *soak) work(ctx context.Context) ([][]sample, error) {
	rate, n, err := k.warm(ctx)
	if err != nil {
		return nil, err
	}
	fmt.Printf("soak: the capacity is %.1f operations a second; %.0f %% of that follow\n", rate, 100*soakShare)
	samples := make([][]sample, soakNodes)
	every := time.Duration(float64(time.Second) / (soakShare * rate))
	tick, look := time.NewTicker(every), time.NewTicker(min(time.Minute, k.s.Hold/60))
	guest, reload := time.NewTicker(min(soakGuest, k.s.Hold/8)), time.NewTicker(min(soakReload, k.s.Hold/6))
	restart := time.NewTicker(min(soakRestart, k.s.Hold/4))
	begun, end := time.Now(), time.After(k.s.Hold-k.warmed)
	for _, t := range []*time.Ticker{tick, look, guest, reload, restart} {
		defer t.Stop()
	}
	for guests := 0; ; {
		select {
		case <-tick.C:
			k.step(ctx, n)
			n++
		case <-guest.C:
			k.count("a peer comes and goes", k.visit(ctx, guests))
			guests++
		case <-reload.C:
			k.count("reload", k.reload(ctx))
		case <-restart.C:
			k.count("a peer restarts", k.restart(ctx))
		case <-look.C:
			for i, p := range k.nodes {
				got, err := sampleOf(ctx, p)
				if err != nil {
					return nil, err
				}
				got.at = time.Since(begun)
				samples[i] = append(samples[i], got)
				fmt.Printf("soak: sample %d of node %d: %.1f MB, %.0f files, %.0f goroutines, %.0f streams\n",
					len(samples[i]), i, got.rss, got.files, got.goroutines, got.streams)
			}
		case <-end:
			return samples, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// reload changes a value in the configuration of each node, and has them read it.
func (k *soak) reload(ctx context.Context) error {
	k.reloads++
	for i, node := range k.apis {
		text := fmt.Sprintf("[gateway]\ninflight = %d\n", 512+k.reloads%2)
		name := filepath.Join(k.home(fmt.Sprintf("soak%d", i)), "config.toml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
		done, err := node.Reload(ctx, api.ReloadRequest{})
		if err != nil {
			return err
		}
		if err := done.Failed(); err != nil {
			return err
		}
	}
	return nil
}

// restart ends the neighbour in order, starts it again and has it read what was added last.
func (k *soak) restart(ctx context.Context) error {
	if err := k.neighbour.End(); err != nil {
		return err
	}
	p, node, err := k.start(ctx, "neighbour", k.nodes[0].Addr)
	if err != nil {
		return err
	}
	defer node.Close()
	k.neighbour = p
	if len(k.trees) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, soakLimit)
	defer cancel()
	return readTree(ctx, node, k.trees[len(k.trees)-1])
}

// step does operation n: each of the nodes does each in turn.
func (k *soak) step(ctx context.Context, n int) {
	ctx, cancel := context.WithTimeout(ctx, soakLimit)
	defer cancel()
	here, next := n/6%soakNodes, (n/6+1)%soakNodes
	switch n % 6 {
	case 0:
		root, err := k.add(ctx, here, 1)
		k.files = newest(k.files, root, err)
		k.count("add a file", err)
	case 1:
		root, err := k.add(ctx, here, 8)
		k.trees = newest(k.trees, root, err)
		k.count("add a tree", err)
	case 2:
		if len(k.trees) > 0 {
			k.count("get a tree", readTree(ctx, k.apis[next], k.trees[len(k.trees)-1]))
		}
	case 3:
		if len(k.files) > 0 {
			k.count("get a file through a gateway", k.through(ctx, next, k.files[rand.IntN(len(k.files))]))
		}
	case 4:
		if len(k.trees) > 0 {
			root := k.trees[rand.IntN(len(k.trees))]
			_, err := k.apis[next].Pin(ctx, root.String(), api.PinOptions{Recursive: true, Label: "soak"})
			if err == nil {
				k.pins = append(k.pins, soakPin{next, root})
			}
			k.count("pin a tree", err)
		}
		if len(k.pins) > soakPins {
			p := k.pins[0]
			k.pins = k.pins[1:]
			k.count("unpin", k.apis[p.node].Unpin(ctx, p.root.String(), ""))
		}
	case 5:
		_, err := k.apis[here].GC(ctx, api.GCOptions{Fast: true}, nil, nil)
		k.count("collect", err)
	}
}

// newest adds root to the last 50.
func newest(roots []b3.Root, root b3.Root, err error) []b3.Root {
	if err != nil {
		return roots
	}
	return append(roots[max(0, len(roots)-49):], root)
}

// count counts an operation by its outcome.
func (k *soak) count(what string, err error) { k.ended[what+": "+status.Of(err).String()]++ }

// add stores new random files on a node, unpinned; one file as itself.
func (k *soak) add(ctx context.Context, node, files int) (b3.Root, error) {
	return addRandom(ctx, k.apis[node], files, soakLargest, api.AddOptions{NoPin: true})
}

// addRandom stores new random files of together at most largest bytes on a node; one file as itself.
func addRandom(
	ctx context.Context, node *client.Client, files int, largest int64, o api.AddOptions,
) (root b3.Root, err error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for i := range files {
		name := fmt.Sprintf("tree/%d", i)
		if files == 1 {
			name = "file"
		}
		size := rand.Int64N(largest / int64(files))
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size, Typeflag: tar.TypeReg}))
		_, e := io.CopyN(w, crand.Reader, size)
		err = errors.Join(err, e)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return root, err
	}
	for added, err := range node.Add(ctx, &buf, o, nil) {
		if err != nil {
			return root, err
		}
		root = added.Root
	}
	return root, nil
}

// readTree reads all of a tree from a node that may have to fetch it.
func readTree(ctx context.Context, api *client.Client, root b3.Root) error {
	st, err := api.Get(ctx, root.String())
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, st.Body)
	return errors.Join(err, st.Body.Close())
}

// through reads an object through a node's gateway.
func (k *soak) through(ctx context.Context, node int, root b3.Root) error {
	code, _, err := measure.Get(ctx, http.DefaultClient, k.nodes[node].Gate+"/o/"+root.String())
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("the gateway answers %d", code)
	}
	return err
}

// visit starts a peer that gets a tree, and ends it: every other time at once.
func (k *soak) visit(ctx context.Context, n int) error {
	if len(k.trees) == 0 {
		return nil
	}
	home := filepath.Join(k.s.Dir, "guest")
	if err := os.RemoveAll(home); err != nil {
		return err
	}
	p, api, err := k.start(ctx, "guest", k.nodes[n%soakNodes].Addr)
	if err != nil {
		return err
	}
	defer api.Close()
	err = func() error {
		ctx, cancel := context.WithTimeout(ctx, soakLimit)
		defer cancel()
		if _, err := api.Connect(ctx, k.nodes[n%soakNodes].Addr); err != nil {
			return err
		}
		return readTree(ctx, api, k.trees[len(k.trees)-1])
	}()
	if n%2 == 0 {
		return errors.Join(err, p.End())
	}
	err = errors.Join(err, p.Cmd.Process.Kill())
	_ = p.Cmd.Wait() // it says that it was killed
	return err
}
