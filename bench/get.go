package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"allium/bench/measure"
)

// filesRest is the time between the removal of files and the next measurement.
const filesRest = 2 * time.Second

// benchGet measures `get -o` of the large file: what is with a peer over TCP beside curl from nginx
// over TLS, over QUIC beside the reference pipe, and what is here beside cp with a sync.
func benchGet(ctx context.Context, s *settings) ([]row, error) {
	if err := randomFile(s.large(), s.size); err != nil {
		return nil, err
	}
	key, _, err := s.add(ctx, s.provider(), s.large())
	if err != nil {
		return nil, err
	}
	overTCP, err := s.getOverTCP(ctx, key)
	if err != nil {
		return nil, err
	}
	overQUIC, err := s.getOverQUIC(ctx, key)
	return append(overTCP, overQUIC...), err
}

// getOverTCP measures cold gets over TCP and local ones, beside curl and cp.
func (s *settings) getOverTCP(ctx context.Context, key string) ([]row, error) {
	url, stop, err := s.serveTLS(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	from, err := s.startNode(ctx, s.provider())
	if err != nil {
		return nil, err
	}
	var cold, cpu, curl, local, cp []float64
	for range s.rounds {
		g, err := s.getCold(ctx, onTCP, from, key)
		if err != nil {
			return nil, err
		}
		cold, cpu, local = append(cold, g.cold), append(cpu, g.cpu), append(local, g.local)
		if url != "" {
			took, err := s.timed(func(out string) error {
				_, err := run(ctx, "curl", "-s", "-k", "-o", out, url)
				return err
			})
			if err != nil {
				return nil, err
			}
			curl = append(curl, took)
		}
		took, err := s.timed(func(out string) error {
			if _, err := run(ctx, "cp", s.large(), out); err != nil {
				return err
			}
			return syncFile(out)
		})
		if err != nil {
			return nil, err
		}
		cp = append(cp, took)
	}
	if _, err := from.Stop(); err != nil {
		return nil, err
	}
	rows := []row{
		{What: "get -o over TCP, cold", Unit: "s", Values: cold},
		{What: "get -o over TCP, cold: CPU of nodes and command", Unit: "s", Values: cpu},
	}
	if url != "" {
		rows = append(rows, row{What: "curl from nginx over TLS", Unit: "s", Values: curl},
			row{What: "get -o over TCP ÷ curl", Unit: "×", Target: "≤ 1.6", Values: measure.Pairs(cold, curl)})
	}
	return append(rows, row{What: "get -o, local", Unit: "s", Values: local},
		row{What: "cp and sync", Unit: "s", Values: cp},
		row{What: "get -o, local ÷ cp and sync", Unit: "×", Target: "≤ 1.2", Values: measure.Pairs(local, cp)}), nil
}

// getOverQUIC measures cold gets over QUIC beside a raw stream that is hashed and written.
func (s *settings) getOverQUIC(ctx context.Context, key string) ([]row, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	from, err := s.startNodeOn(ctx, onQUIC, s.provider())
	if err != nil {
		return nil, err
	}
	pipe, err := measure.Start(ctx, nil, self, "reference-serve", s.large(), onQUIC)
	if err != nil {
		return nil, err
	}
	var cold, raw []float64
	for range s.rounds {
		g, err := s.getCold(ctx, onQUIC, from, key)
		if err != nil {
			return nil, err
		}
		cold = append(cold, g.cold)
		var seconds float64
		if _, err := s.timed(func(out string) error {
			p, err := run(ctx, self, "reference-pull", pipe.Addr, out)
			if err == nil {
				_, err = fmt.Sscan(p.out, &seconds)
			}
			return err
		}); err != nil {
			return nil, err
		}
		raw = append(raw, seconds)
	}
	if _, err := pipe.Stop(); err != nil {
		return nil, err
	}
	if _, err := from.Stop(); err != nil {
		return nil, err
	}
	return []row{
		{What: "get -o over QUIC, cold", Unit: "s", Values: cold},
		{What: "raw QUIC stream, hashed and written", Unit: "s", Values: raw},
		{What: "get -o over QUIC ÷ raw stream", Unit: "×", Target: "≤ 1.3", Values: measure.Pairs(cold, raw)},
	}, nil
}

// gets holds the times that two gets of one object to a file took: from a peer, and then from the store.
type gets struct {
	cold, local float64 // seconds
	cpu         float64 // seconds that both nodes and the command computed for the cold one
}

// getCold starts a node with an empty store on the transport of listen and gets key from the provider.
func (s *settings) getCold(ctx context.Context, listen string, from *process, key string) (g gets, err error) {
	home := filepath.Join(s.dir, "getter")
	if err := os.RemoveAll(home); err != nil {
		return g, err
	}
	time.Sleep(filesRest)
	to, err := s.startNodeOn(ctx, listen, home, from.Addr)
	if err != nil {
		return g, err
	}
	if _, err := run(ctx, s.allium, "--home", home, "connect", from.Addr); err != nil {
		return g, err
	}
	nodes := func() (sum time.Duration, err error) {
		for _, p := range []*process{from, to} {
			used, err := p.CPU()
			if err != nil {
				return 0, err
			}
			sum += used
		}
		return sum, nil
	}
	get := func(out string) error {
		u, err := run(ctx, s.allium, "--home", home, "get", key, "-q", "-o", out)
		g.cpu = u.cpu.Seconds()
		return err
	}
	before, err := nodes()
	if err != nil {
		return g, err
	}
	if g.cold, err = s.timed(get); err != nil {
		return g, err
	}
	after, err := nodes()
	if err != nil {
		return g, err
	}
	command := g.cpu
	if _, err := run(ctx, s.allium, "--home", home, "verify", key); err != nil { // when the store has its copy
		return g, err
	}
	if g.local, err = s.timed(get); err != nil {
		return g, err
	}
	g.cpu = command + (after - before).Seconds()
	_, err = to.Stop()
	return g, err
}

// timed returns the seconds that work takes to make a file, which is removed then.
func (s *settings) timed(work func(out string) error) (float64, error) {
	out := filepath.Join(s.dir, "out")
	begun := time.Now()
	if err := work(out); err != nil {
		return 0, err
	}
	took := time.Since(begun).Seconds()
	if err := os.Remove(out); err != nil {
		return 0, err
	}
	time.Sleep(filesRest)
	return took, nil
}

func syncFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Fdatasync(int(f.Fd()))
}

// serveTLS lets nginx serve the large file over TLS on loopback. The URL is empty, and said to be, when
// nginx, curl or openssl is missing.
func (s *settings) serveTLS(ctx context.Context) (url string, stop func(), err error) {
	for _, name := range []string{"nginx", "curl", "openssl"} {
		if _, missing := exec.LookPath(name); missing != nil {
			fmt.Printf("%s is missing: get -o is not compared with curl from nginx\n", name)
			return "", func() {}, nil //nolint:nilerr // without them the rest is measured
		}
	}
	dir := filepath.Join(s.dir, "nginx")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", nil, err
	}
	_, err = run(ctx, "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
		"-keyout", dir+"/key.pem", "-out", dir+"/cert.pem", "-days", "2", "-subj", "/CN=localhost")
	if err != nil {
		return "", nil, err
	}
	at, err := freeAddr(ctx)
	if err != nil {
		return "", nil, err
	}
	// One worker, as root too: it has to read a directory of mode 0700.
	conf := fmt.Sprintf(`%sworker_processes 1; daemon off; pid %s/pid; error_log %s/error.log;
events {}
http { access_log off; sendfile on; server { listen %s ssl; root %s; ssl_protocols TLSv1.3;
ssl_certificate %s/cert.pem; ssl_certificate_key %s/key.pem; } }
`, asRoot(), dir, dir, at, s.dir, dir, dir)
	if err := os.WriteFile(dir+"/nginx.conf", []byte(conf), 0o600); err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, "nginx", "-p", dir, "-c", dir+"/nginx.conf")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
	for range 100 {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", at)
		if err == nil {
			_ = c.Close()
			return "https://" + at + "/" + filepath.Base(s.large()), stop, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	stop()
	return "", nil, fmt.Errorf("nginx does not listen on %s", at)
}

// asRoot returns the directive with which nginx stays root, if this is root.
func asRoot() string {
	if os.Geteuid() == 0 {
		return "user root; "
	}
	return ""
}
