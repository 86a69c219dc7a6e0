package bed

import (
	"context"
	"os"
	"strings"

	"allium/bench/measure"
)

// Where a node or a reference server listens: on loopback, on any port.
const (
	OnTCP  = "/ip4/127.0.0.1/tcp/0"
	OnQUIC = "/ip4/127.0.0.1/udp/0/quic-v1"
)

// StartNode starts a node on loopback TCP alone.
func (s *Settings) StartNode(ctx context.Context, home string, bootstrap ...string) (*measure.Process, error) {
	return s.StartNodeOn(ctx, OnTCP, home, bootstrap...)
}

// StartNodeOn starts a node that listens at one address.
func (s *Settings) StartNodeOn(
	ctx context.Context, listen, home string, bootstrap ...string,
) (*measure.Process, error) {
	return s.StartNodeAs(ctx, AsTestnet, listen, home, bootstrap...)
}

// The flags of a node of a testnet, and of one as most people run it.
var (
	AsTestnet = []string{"--profile", "testnet"}
	AsUsual   = []string{"--gateway", "127.0.0.1:0", "--admin", "127.0.0.1:0"}
)

// StartNodeAs starts a node with flags, such as AsTestnet.
func (s *Settings) StartNodeAs(
	ctx context.Context, flags []string, listen, home string, bootstrap ...string,
) (*measure.Process, error) {
	nodes := measure.Nodes{Allium: s.Allium, Env: s.env}
	return nodes.StartAs(ctx, home, append([]string{"--listen", listen}, flags...), bootstrap...)
}

// MakeHome makes a home where none is: only `init` and `run` make one.
func (s *Settings) MakeHome(ctx context.Context, home string) error {
	if _, err := os.Stat(home); err == nil {
		return nil
	}
	_, err := s.Run(ctx, home, "init")
	return err
}

// Add adds a file or directory to the store of home, which it makes if there is none. It returns the address, and what
// the add took.
func (s *Settings) Add(ctx context.Context, home, path string) (key string, took Usage, err error) {
	if err := s.MakeHome(ctx, home); err != nil {
		return "", took, err
	}
	took, err = s.Run(ctx, home, "add", "-q", path)
	return strings.TrimSpace(took.Out), took, err
}
