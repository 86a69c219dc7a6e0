package measure

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"allium/gateway/api"
	"allium/gateway/api/client"
)

// Nodes starts nodes of a testnet on loopback.
type Nodes struct {
	Allium string   // the program
	Env    []string // of nodes, beside that of this process, such as "KEY=value"
}

// Start starts the node of a home, which it makes if there is none, and returns when the node is ready.
func (n Nodes) Start(ctx context.Context, home string, seeds ...string) (*Process, error) {
	return n.StartAs(ctx, home, []string{"--profile", "testnet", "--listen", "/ip4/127.0.0.1/tcp/0"}, seeds...)
}

// StartAs is Start of a node with other flags than those of a testnet.
func (n Nodes) StartAs(ctx context.Context, home string, flags []string, seeds ...string) (*Process, error) {
	args := append([]string{"--home", home, "--log-level", "error", "run"}, flags...)
	for _, seed := range seeds {
		args = append(args, "--bootstrap", seed)
	}
	return Start(ctx, n.Env, n.Allium, args...)
}

// Add makes a home and adds a file or directory to its store. It returns the address.
func (n Nodes) Add(ctx context.Context, home, path string) (key string, err error) {
	if _, err := n.Run(ctx, home, "init"); err != nil {
		return "", err
	}
	return n.Run(ctx, home, "add", "-q", path)
}

// Run runs a command of the program in a home, and returns what it prints.
func (n Nodes) Run(ctx context.Context, home string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, n.Allium, append([]string{"--home", home}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("%s %v: %w", n.Allium, args, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Client returns a client of the node of a home.
func Client(home string) (*client.Client, error) {
	socket, err := api.SocketPath(home)
	if err != nil {
		return nil, err
	}
	return client.New(socket)
}
