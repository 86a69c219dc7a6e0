// Program beside measures reads of 4 KiB at the gateway of a node, alone and beside work that nobody waits for:
// `verify --all --repair`, the scrub, the hashing of what is added and the signing of names (issue 38: the p99 beside
// it is at most 1.3 × that of the node alone, and each goes on).
//
//	go build -o /tmp/allium ./cmd/allium && go run -C bench ./beside -allium /tmp/allium
//
// It starts a node in a temporary directory on loopback. It asks at a fixed rate, each request by itself, and takes the
// time from when the request was due. Rounds alone and beside take turns, so a busy machine disturbs both. A process of
// its own asks the node for the work, over one connection each, so that neither the start of commands nor the askers
// take a core from each other. -work says which of the three.
package main

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"allium/bench/bed"
	"allium/bench/measure"
	"allium/gateway/api"
	"allium/gateway/api/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	b := bench{}
	flag.StringVar(&b.work, "work", "verify,add,sign", "the work beside, with commas between")
	flag.StringVar(&b.of, "of", "", "do the work at the node of this home until the input ends (the program's own)")
	flag.StringVar(&b.allium, "allium", "allium", "the program")
	flag.IntVar(&b.rate, "rate", 100, "requests a second")
	flag.DurationVar(&b.round, "round", 10*time.Second, "time of a round")
	flag.IntVar(&b.rounds, "rounds", 3, "rounds alone, and as many beside")
	flag.Int64Var(&b.size, "size", 256<<20, "bytes of the object that is verified, and of each that is added")
	flag.Parse()
	do := b.run
	if b.of != "" {
		do = b.toil
	}
	if err := do(ctx); err != nil {
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
	work   string
	of     string

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
	done := map[string]int{}
	for range b.rounds {
		took, err := b.read(ctx)
		if err != nil {
			return err
		}
		alone = append(alone, took...)
		end, err := b.begin(ctx)
		if err != nil {
			return err
		}
		took, err = b.read(ctx)
		if err = errors.Join(err, end(done)); err != nil {
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
		done["verify"], done["add"], b.size>>20, done["sign"])
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
	home := filepath.Join(b.dir, "home")
	node, err := measure.Nodes{Allium: b.allium}.StartAs(ctx, home, bed.AsUsual)
	if err != nil {
		return nil, err
	}
	end = func() { _ = node.End() }
	for i := range 64 {
		key, err := b.add(ctx, fmt.Sprint("small", i), 4<<10)
		if err != nil {
			end()
			return nil, err
		}
		b.urls = append(b.urls, node.Gate+"/o/"+key)
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
	out, err := b.command(ctx, "add", "-q", file).Output()
	return strings.TrimSpace(string(out)), errors.Join(err, os.Remove(file))
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

// begin starts the process that does the work. end stops it, and adds what it has done to done.
func (b *bench) begin(ctx context.Context) (end func(done map[string]int) error, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "-of", filepath.Join(b.dir, "home"), "-work", b.work, "-size",
		fmt.Sprint(b.size))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func(done map[string]int) error {
		_ = in.Close() // it ends the work
		for lines := bufio.NewScanner(out); lines.Scan(); {
			done[lines.Text()]++
		}
		return cmd.Wait()
	}, nil
}

// toil does the work at a node until the input ends, and prints the name of each piece that has ended.
func (b *bench) toil(ctx context.Context) error {
	socket, err := api.SocketPath(b.of)
	if err != nil {
		return err
	}
	node, err := client.New(socket)
	if err != nil {
		return err
	}
	defer node.Close()
	ctx, cancel := context.WithCancel(ctx)
	var working sync.WaitGroup
	for what, do := range map[string]func(turn int) error{
		"verify": func(int) error { return last(node.Verify(ctx, "", api.VerifyOptions{Repair: true})) },
		"add":    b.adder(ctx, node),
		"sign": func(turn int) error {
			name := fmt.Sprintf("n%d.bench", turn%100)
			_, err := node.PublishName(ctx, api.PublishRequest{Name: name, Value: "text"})
			return err
		},
	} {
		if !slices.Contains(strings.Split(b.work, ","), what) {
			continue
		}
		working.Go(func() {
			for turn := 0; ctx.Err() == nil; turn++ {
				if err := do(turn); err == nil {
					fmt.Println(what)
				} else if ctx.Err() == nil {
					fmt.Fprintf(os.Stderr, "beside: %s: %v\n", what, err)
					time.Sleep(time.Second)
				}
			}
		})
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	working.Wait()
	return nil
}

// adder returns what adds other bytes each time.
func (b *bench) adder(ctx context.Context, node *client.Client) func(int) error {
	body := make([]byte, b.size)
	_, _ = rand.Read(body) // never fails
	return func(int) error {
		for at := 0; at < len(body); at += 16 << 10 { // of every group
			_, _ = rand.Read(body[at:min(at+8, len(body))])
		}
		r, w := io.Pipe()
		go func() {
			out := tar.NewWriter(w)
			err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "more", Size: b.size, Mode: 0o600})
			if err == nil {
				_, err = out.Write(body)
			}
			_ = w.CloseWithError(errors.Join(err, out.Close()))
		}()
		defer r.Close()
		return last(node.Add(ctx, r, api.AddOptions{NoPin: true}, nil))
	}
}

// last returns the error of a sequence.
func last[T any](all iter.Seq2[T, error]) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

func quantile(d []time.Duration, q int) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[(len(d)-1)*q/100]
}
