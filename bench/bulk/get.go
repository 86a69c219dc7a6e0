package bulk

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"allium/bench/bed"
	"allium/bench/measure"
)

// Get measures `get -o` of the large file: what is with a peer over TCP beside curl from nginx
// over TLS, over QUIC beside the reference pipe, and what is here beside cp with a sync.
func Get(ctx context.Context, s *bed.Settings) ([]measure.Row, error) {
	if err := bed.RandomFile(s.Large(), s.Size); err != nil {
		return nil, err
	}
	key, _, err := s.Add(ctx, s.Provider(), s.Large())
	if err != nil {
		return nil, err
	}
	overTCP, err := getOverTCP(ctx, s, key)
	if err != nil {
		return nil, err
	}
	overQUIC, err := getOverQUIC(ctx, s, key)
	return append(overTCP, overQUIC...), err
}

// getOverTCP measures cold gets over TCP and local ones, beside curl and cp.
func getOverTCP(ctx context.Context, s *bed.Settings, key string) ([]measure.Row, error) {
	url, stop, err := serveTLS(ctx, s)
	if err != nil {
		return nil, err
	}
	defer stop()
	from, err := s.StartNode(ctx, s.Provider())
	if err != nil {
		return nil, err
	}
	var cold, cpu, curl, local, cp []float64
	for range s.Rounds {
		g, err := getCold(ctx, s, bed.OnTCP, from, key)
		if err != nil {
			return nil, err
		}
		cold, cpu, local = append(cold, g.cold), append(cpu, g.cpu), append(local, g.local)
		if url != "" {
			took, err := timed(s, func(out string) error {
				_, err := bed.Run(ctx, "curl", "-s", "-k", "-o", out, url)
				return err
			})
			if err != nil {
				return nil, err
			}
			curl = append(curl, took)
		}
		took, err := timed(s, func(out string) error {
			if _, err := bed.Run(ctx, "cp", s.Large(), out); err != nil {
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
	rows := []measure.Row{
		{What: "get -o over TCP, cold", Unit: "s", Values: cold},
		{What: "get -o over TCP, cold: CPU of nodes and command", Unit: "s", Values: cpu},
	}
	if url != "" {
		rows = append(rows, measure.Row{What: "curl from nginx over TLS", Unit: "s", Values: curl},
			measure.Row{What: "get -o over TCP ÷ curl", Unit: "×", Target: "≤ 1.6", Values: measure.Pairs(cold, curl)})
	}
	return append(rows, measure.Row{What: "get -o, local", Unit: "s", Values: local},
		measure.Row{What: "cp and sync", Unit: "s", Values: cp},
		measure.Row{What: "get -o, local ÷ cp and sync", Unit: "×", Target: "≤ 1.2",
			Values: measure.Pairs(local, cp)}), nil
}

// getOverQUIC measures cold gets over QUIC beside a raw stream that is hashed and written.
func getOverQUIC(ctx context.Context, s *bed.Settings, key string) ([]measure.Row, error) {
	from, err := s.StartNodeOn(ctx, bed.OnQUIC, s.Provider())
	if err != nil {
		return nil, err
	}
	pipe, err := bed.Reference(ctx, "serve", s.Large(), bed.OnQUIC)
	if err != nil {
		return nil, err
	}
	var cold, raw []float64
	for range s.Rounds {
		g, err := getCold(ctx, s, bed.OnQUIC, from, key)
		if err != nil {
			return nil, err
		}
		cold = append(cold, g.cold)
		var seconds float64
		if _, err := timed(s, func(out string) error {
			p, err := bed.RunReference(ctx, "pull", pipe.Addr, out)
			if err == nil {
				_, err = fmt.Sscan(p.Out, &seconds)
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
	return []measure.Row{
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
func getCold(
	ctx context.Context, s *bed.Settings, listen string, from *measure.Process, key string,
) (g gets, err error) {
	home := filepath.Join(s.Dir, "getter")
	if err := os.RemoveAll(home); err != nil {
		return g, err
	}
	time.Sleep(bed.Rest)
	to, err := s.StartNodeOn(ctx, listen, home, from.Addr)
	if err != nil {
		return g, err
	}
	if _, err := s.Run(ctx, home, "connect", from.Addr); err != nil {
		return g, err
	}
	nodes := func() (sum time.Duration, err error) {
		for _, p := range []*measure.Process{from, to} {
			used, err := p.CPU()
			if err != nil {
				return 0, err
			}
			sum += used
		}
		return sum, nil
	}
	get := func(out string) error {
		u, err := s.Run(ctx, home, "get", key, "-q", "-o", out)
		g.cpu = u.CPU.Seconds()
		return err
	}
	before, err := nodes()
	if err != nil {
		return g, err
	}
	if g.cold, err = timed(s, get); err != nil {
		return g, err
	}
	after, err := nodes()
	if err != nil {
		return g, err
	}
	command := g.cpu
	if _, err := s.Run(ctx, home, "verify", key); err != nil { // when the store has its copy
		return g, err
	}
	if g.local, err = timed(s, get); err != nil {
		return g, err
	}
	g.cpu = command + (after - before).Seconds()
	_, err = to.Stop()
	return g, err
}

// timed returns the seconds that work takes to make a file, which is removed then.
func timed(s *bed.Settings, work func(out string) error) (float64, error) {
	out := filepath.Join(s.Dir, "out")
	begun := time.Now()
	if err := work(out); err != nil {
		return 0, err
	}
	took := time.Since(begun).Seconds()
	if err := os.Remove(out); err != nil {
		return 0, err
	}
	time.Sleep(bed.Rest)
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
func serveTLS(ctx context.Context, s *bed.Settings) (url string, stop func(), err error) {
	for _, name := range []string{"nginx", "curl", "openssl"} {
		if _, missing := exec.LookPath(name); missing != nil {
			fmt.Printf("%s is missing: get -o is not compared with curl from nginx\n", name)
			return "", func() {}, nil //nolint:nilerr // without them the rest is measured
		}
	}
	dir := filepath.Join(s.Dir, "nginx")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", nil, err
	}
	_, err = bed.Run(ctx, "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
		"-keyout", dir+"/key.pem", "-out", dir+"/cert.pem", "-days", "2", "-subj", "/CN=localhost")
	if err != nil {
		return "", nil, err
	}
	at, err := measure.FreeAddr(ctx)
	if err != nil {
		return "", nil, err
	}
	// One worker, as root too: it has to read a directory of mode 0700.
	conf := fmt.Sprintf(`%sworker_processes 1; daemon off; pid %s/pid; error_log %s/error.log;
events {}
http { access_log off; sendfile on; server { listen %s ssl; root %s; ssl_protocols TLSv1.3;
ssl_certificate %s/cert.pem; ssl_certificate_key %s/key.pem; } }
`, asRoot(), dir, dir, at, s.Dir, dir, dir)
	if err := os.WriteFile(dir+"/nginx.conf", []byte(conf), 0o600); err != nil {
		return "", nil, err
	}
	p, err := measure.Serve(ctx, at, "nginx", "-p", dir, "-c", dir+"/nginx.conf")
	if err != nil {
		return "", nil, err
	}
	return "https://" + at + "/" + filepath.Base(s.Large()), func() { _ = p.End() }, nil
}

// asRoot returns the directive with which nginx stays root, if this is root.
func asRoot() string {
	if os.Geteuid() == 0 {
		return "user root; "
	}
	return ""
}
