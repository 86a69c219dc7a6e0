// Program beside measures reads of 4 KiB at the gateway of a node, alone and beside work that nobody waits for:
// `verify --all --repair`, the scrub, the hashing of what is added and the signing of names (issue 38: the p99 beside
// it is at most 1.3 × that of the node alone, and each goes on).
//
//	go build -o /tmp/allium ./cmd/allium && go run -C bench ./beside -allium /tmp/allium
//
// It starts a node in a temporary directory on loopback. It asks at a fixed rate, each request by itself, and takes the
// time from when the request was due. Rounds alone and beside take turns, so a busy machine disturbs both.
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	b := bench{}
	flag.StringVar(&b.allium, "allium", "allium", "the program")
	flag.IntVar(&b.rate, "rate", 100, "requests a second")
	flag.DurationVar(&b.round, "round", 10*time.Second, "time of a round")
	flag.IntVar(&b.rounds, "rounds", 3, "rounds alone, and as many beside")
	flag.Int64Var(&b.size, "size", 256<<20, "bytes of the object that is verified, and of each that is added")
	flag.Parse()
	if err := b.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "beside:", err)
		os.Exit(1)
	}
}

type bench struct {
	allium string
	rate   int
	round  time.Duration
	rounds int
	size   int64

	dir  string // of everything
	urls []string
}

func (b *bench) run(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp("", "allium-beside-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	end, err := b.start(ctx)
	if err != nil {
		return err
	}
	defer end()
	var alone, beside []time.Duration
	var done [3]atomic.Int64
	for range b.rounds {
		took, err := b.read(ctx)
		if err != nil {
			return err
		}
		alone = append(alone, took...)
		end := b.work(ctx, &done)
		took, err = b.read(ctx)
		end()
		if err != nil {
			return err
		}
		beside = append(beside, took...)
	}
	for _, q := range []int{50, 99} {
		a, w := quantile(alone, q), quantile(beside, q)
		fmt.Printf("4 KiB reads, p%d: %v alone, %v beside, %.2f ×\n", q, a.Round(time.Microsecond),
			w.Round(time.Microsecond), float64(w)/float64(a))
	}
	fmt.Printf("ended beside: %d × verify --all --repair, %d × add of %d MiB, %d names signed\n",
		done[0].Load(), done[1].Load(), b.size>>20, done[2].Load())
	return nil
}

// start starts the node, whose scrub is as fast as it may be, and adds what is read.
func (b *bench) start(ctx context.Context) (end func(), err error) {
	if err := b.call(ctx, "init", "--profile", "testnet"); err != nil {
		return nil, err
	}
	if err := b.call(ctx, "config", "set", "store.scrub_rate", "1GiB"); err != nil {
		return nil, err
	}
	node := b.command(ctx, "run", "--gateway", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	out, err := node.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := node.Start(); err != nil {
		return nil, err
	}
	end = func() {
		_ = node.Process.Signal(os.Interrupt)
		_, _ = io.Copy(io.Discard, out)
		_ = node.Wait()
	}
	gateway := ""
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "ready"; {
		if _, url, ok := strings.Cut(lines.Text(), "gateway on "); ok {
			gateway = strings.Fields(url)[0]
		}
	}
	for i := range 64 {
		key, err := b.add(ctx, fmt.Sprint("small", i), 4<<10)
		if err != nil {
			end()
			return nil, err
		}
		b.urls = append(b.urls, gateway+"/o/"+key)
	}
	if _, err := b.add(ctx, "large", b.size); err != nil {
		end()
		return nil, err
	}
	if err := b.call(ctx, "zone", "new", "bench"); err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// add adds random bytes and returns their address.
func (b *bench) add(ctx context.Context, name string, size int64) (string, error) {
	file := filepath.Join(b.dir, name)
	f, err := os.Create(file)
	if err != nil {
		return "", err
	}
	_, err = io.CopyN(f, rand.Reader, size)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	defer os.Remove(file)
	out, err := b.command(ctx, "add", "-q", file).Output()
	return strings.TrimSpace(string(out)), err
}

func (b *bench) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, b.allium, append([]string{"--home", filepath.Join(b.dir, "home")}, args...)...)
	cmd.Stderr = os.Stderr
	return cmd
}

func (b *bench) call(ctx context.Context, args ...string) error { return b.command(ctx, args...).Run() }

// read asks for the small objects at the rate for a round, and returns how long each answer took from when it was due.
func (b *bench) read(ctx context.Context) ([]time.Duration, error) {
	n := int(b.round.Seconds() * float64(b.rate))
	took, errs := make([]time.Duration, n), make([]error, n)
	var asking sync.WaitGroup
	start := time.Now()
	for i := range n {
		due := start.Add(time.Duration(i) * time.Second / time.Duration(b.rate))
		select {
		case <-time.After(time.Until(due)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		asking.Go(func() {
			errs[i] = fetch(ctx, b.urls[i%len(b.urls)])
			took[i] = time.Since(due)
		})
	}
	asking.Wait()
	return took, errors.Join(errs...)
}

func fetch(ctx context.Context, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != 4<<10 || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s, %d bytes: %w", url, resp.Status, n, err)
	}
	return nil
}

// work does what nobody waits for until end is called, and counts what has ended.
func (b *bench) work(ctx context.Context, done *[3]atomic.Int64) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var working sync.WaitGroup
	for i, do := range []func() error{
		func() error { return b.quiet(ctx, "verify", "--all", "--repair") },
		func() error { _, err := b.add(ctx, "more", b.size); return err },
		func() error {
			key := b.urls[0][strings.LastIndexByte(b.urls[0], '/')+1:]
			return b.quiet(ctx, "name", "publish", fmt.Sprintf("n%d.bench", done[2].Load()), key)
		},
	} {
		working.Go(func() {
			for ctx.Err() == nil {
				if err := do(); err == nil {
					done[i].Add(1)
				} else if ctx.Err() == nil {
					fmt.Fprintln(os.Stderr, "beside:", err)
					time.Sleep(time.Second)
				}
			}
		})
	}
	return func() {
		cancel()
		working.Wait()
	}
}

// quiet runs a command whose output is not wanted.
func (b *bench) quiet(ctx context.Context, args ...string) error {
	cmd := b.command(ctx, args...)
	cmd.Stderr = nil
	return cmd.Run()
}

func quantile(d []time.Duration, q int) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[(len(d)-1)*q/100]
}
