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
	"time"

	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// The soak: mixed work on three nodes, among peers that come and go.
const (
	soakNodes   = 3
	soakEvery   = 500 * time.Millisecond // an operation begins that often, if the last one has ended
	soakLimit   = time.Minute            // for an operation
	soakPins    = 40                     // the oldest pin goes when there are more
	soakLargest = 4 << 20                // bytes of a file
	soakStore   = "512MiB"               // of each node: the rest is evicted
	soakGuest   = 30 * time.Second       // a peer comes that often, and goes
)

// soak is the work so far.
type soak struct {
	s     *settings
	nodes []*process
	apis  []*client.Client
	files []b3.Root // newest last
	trees []b3.Root
	pins  []soakPin
	ended map[string]int // operations by name and outcome
}

// soakPin is a pin that the soak made.
type soakPin struct {
	node int
	root b3.Root
}

// sample holds the memory in MB, the open files and the goroutines of a node at one moment.
type sample struct{ rss, files, goroutines float64 }

// benchSoak works on three nodes for s.hold and says whether what they hold
// grows: of each, what it was half-way and at the end.
func benchSoak(ctx context.Context, s *settings) (rows []row, err error) {
	k := &soak{s: s.with("ALLIUM_STORE__MAX_BYTES=" + soakStore), ended: map[string]int{}}
	for i := range soakNodes {
		var seeds []string
		if i > 0 {
			seeds = []string{k.nodes[0].addr}
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
	for _, name := range slices.Sorted(maps.Keys(k.ended)) {
		fmt.Printf("soak: %-30s %d\n", name, k.ended[name])
	}
	for i, p := range k.nodes {
		if _, err := p.stop(); err != nil {
			return nil, err
		}
		rows = append(rows, growth(fmt.Sprintf("soak: node %d: ", i), samples[i])...)
	}
	return rows, nil
}

// start starts a node in a home of that name.
func (k *soak) start(ctx context.Context, name string, seeds ...string) (*process, *client.Client, error) {
	home := filepath.Join(k.s.dir, name)
	socket, err := api.SocketPath(home)
	if err != nil {
		return nil, nil, err
	}
	p, err := k.s.startNode(ctx, home, seeds...)
	if err != nil {
		return nil, nil, err
	}
	api, err := client.New(socket)
	return p, api, err
}

// work runs operations and takes a sample of each node every minute, or sixty of
// them when the soak is shorter than an hour.
func (k *soak) work(ctx context.Context) ([][]sample, error) {
	samples := make([][]sample, soakNodes)
	tick, look := time.NewTicker(soakEvery), time.NewTicker(min(time.Minute, k.s.hold/60))
	guest, end := time.NewTicker(soakGuest), time.After(k.s.hold)
	defer tick.Stop()
	defer look.Stop()
	defer guest.Stop()
	for n, guests := 0, 0; ; {
		select {
		case <-tick.C:
			k.step(ctx, n)
			n++
		case <-guest.C:
			k.count("a peer comes and goes", k.visit(ctx, guests))
			guests++
		case <-look.C:
			for i, p := range k.nodes {
				got, err := p.sample(ctx)
				if err != nil {
					return nil, err
				}
				samples[i] = append(samples[i], got)
				fmt.Printf("soak: sample %d of node %d: %.1f MB, %.0f files, %.0f goroutines\n",
					len(samples[i]), i, got.rss,
					got.files, got.goroutines)
			}
		case <-end:
			return samples, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
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
func (k *soak) add(ctx context.Context, node, files int) (root b3.Root, err error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for i := range files {
		name := fmt.Sprintf("tree/%d", i)
		if files == 1 {
			name = "file"
		}
		size := rand.Int64N(soakLargest / int64(files))
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size, Typeflag: tar.TypeReg}))
		_, e := io.CopyN(w, crand.Reader, size)
		err = errors.Join(err, e)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return root, err
	}
	for added, err := range k.apis[node].Add(ctx, &buf, api.AddOptions{NoPin: true}, nil) {
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
	code, _, err := get(ctx, http.DefaultClient, k.nodes[node].gate+"/o/"+root.String())
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
	home := filepath.Join(k.s.dir, "guest")
	if err := os.RemoveAll(home); err != nil {
		return err
	}
	p, api, err := k.start(ctx, "guest", k.nodes[n%soakNodes].addr)
	if err != nil {
		return err
	}
	defer api.Close()
	err = func() error {
		ctx, cancel := context.WithTimeout(ctx, soakLimit)
		defer cancel()
		if _, err := api.Connect(ctx, k.nodes[n%soakNodes].addr); err != nil {
			return err
		}
		return readTree(ctx, api, k.trees[len(k.trees)-1])
	}()
	if n%2 == 0 {
		_, e := p.stop()
		return errors.Join(err, e)
	}
	err = errors.Join(err, p.cmd.Process.Kill())
	_ = p.cmd.Wait() // it says that it was killed
	return err
}

// sample reads what the process holds now.
func (p *process) sample(ctx context.Context) (s sample, err error) {
	rss, err := p.memory()
	if err != nil {
		return s, err
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if err != nil {
		return s, err
	}
	s.rss, s.files = mb(rss), float64(len(open))
	now, err := p.counters(ctx)
	s.goroutines = now["go_goroutines"]
	return s, err
}

// growth returns rows of the third quarter of a node's samples, of the fourth, and
// of the mean of the fourth divided by that of the third.
func growth(who string, all []sample) (rows []row) {
	for _, m := range []struct {
		what, unit string
		of         func(sample) float64
	}{
		{"RSS", "MB", func(s sample) float64 { return s.rss }},
		{"open files", "", func(s sample) float64 { return s.files }},
		{"goroutines", "", func(s sample) float64 { return s.goroutines }},
	} {
		var values []float64
		for _, s := range all {
			values = append(values, m.of(s))
		}
		half, last := len(values)/2, len(values)*3/4
		third, fourth := values[half:last], values[last:]
		if len(third) == 0 || len(fourth) == 0 {
			continue
		}
		rows = append(rows,
			row{what: who + m.what + ", third quarter", unit: m.unit, values: third},
			row{what: who + m.what + ", fourth quarter", unit: m.unit, values: fourth},
			row{what: who + m.what + ", fourth ÷ third", unit: "×", target: "about 1",
				values: []float64{mean(fourth) / mean(third)}},
		)
	}
	return rows
}

func mean(v []float64) (m float64) {
	for _, x := range v {
		m += x / float64(len(v))
	}
	return m
}
