package sites

import (
	"context"
	"net"
	"os/exec"
	"strings"

	"allium/bench/measure"
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
	addr, err := measure.FreeAddr(ctx)
	if err != nil {
		return nil, err
	}
	p, err := measure.Serve(ctx, addr, program, "file-server", "--listen", addr, "--root", dir)
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	stop := func() { _ = p.End() } // it may say that it was ended
	return &caddyServer{"http://page.localhost:" + port + "/", strings.TrimSpace(string(version)), stop}, nil
}
