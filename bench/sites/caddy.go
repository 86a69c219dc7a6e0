package sites

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"time"
)

// caddyServer is a Caddy that serves a directory.
type caddyServer struct {
	url, version string
	stop         func()
}

// startCaddy serves dir at a host below localhost.
func startCaddy(ctx context.Context, program, dir string) (*caddyServer, error) {
	version, err := exec.CommandContext(ctx, program, "version").Output()
	if err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, program, "file-server", "--listen", addr, "--root", dir)
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	stop := func() { cancel(); _ = cmd.Wait() } // it says that it was killed
	for range 100 {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", addr)
		if err == nil {
			_, port, _ := net.SplitHostPort(addr)
			return &caddyServer{"http://page.localhost:" + port + "/", strings.TrimSpace(string(version)), stop},
				c.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	stop()
	return nil, fmt.Errorf("%s does not listen on %s", program, addr)
}
