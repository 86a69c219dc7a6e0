// Package redundancy measures clusters: copies, shards, repairs and lost nodes.
package redundancy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"allium/bench/bed"
	"allium/bench/measure"
	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/protocols/b3"
)

const (
	ringNodes = 6                     // that are to know each other
	ringLimit = time.Minute           // for a cluster to become complete
	ringLook  = 20 * time.Millisecond // between two looks at the members of a node
	ringFile  = "capability.keys"     // the ring that makes nodes a cluster
)

// member is a node of a cluster.
type member struct {
	*measure.Process
	home string
	api  *client.Client
}

// cluster is nodes with one ring and one seed, on loopback TCP. It is not safe for concurrent use.
type cluster struct {
	s       *bed.Settings
	dir     string // of the homes
	config  string // of each node
	flags   []string
	seed    string // address of the first node that was started
	members []*member
	started int // homes that were made
}

// newCluster returns a cluster without nodes, in a directory of that name. config is what each node's configuration
// has besides what all have.
func newCluster(s *bed.Settings, name, config string) (*cluster, error) {
	dir := filepath.Join(s.Dir, name)
	c := &cluster{s: s, dir: dir, flags: bed.AsTestnet, config: "[listen]\nmdns = false\nport_map = false\n" + config}
	return c, os.MkdirAll(dir, 0o700)
}

// startCluster starts so many nodes with flags and waits until each knows all.
func startCluster(ctx context.Context, s *bed.Settings, name string, flags []string, config string, n int,
) (*cluster, error) {
	c, err := newCluster(s, name, config)
	if err != nil {
		return nil, err
	}
	c.flags = flags
	if err := c.start(ctx, n); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

// start starts so many further nodes, all but the first one at once, and waits until each node knows all.
func (c *cluster) start(ctx context.Context, n int) error {
	if len(c.members) == 0 && n > 0 {
		if err := c.startAtOnce(ctx, 1); err != nil {
			return err
		}
		n--
	}
	if err := c.startAtOnce(ctx, n); err != nil {
		return err
	}
	return c.complete(ctx, len(c.members))
}

// startAtOnce starts so many further nodes at the same time.
func (c *cluster) startAtOnce(ctx context.Context, n int) error {
	added, failed := make([]*member, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		home, err := c.newHome(ctx)
		if err != nil {
			return err
		}
		wg.Go(func() { added[i], failed[i] = c.startMember(ctx, home) })
	}
	wg.Wait()
	for _, m := range added {
		if m != nil {
			c.members = append(c.members, m)
		}
	}
	if c.seed == "" && len(c.members) > 0 {
		c.seed = c.members[0].Addr
	}
	return errors.Join(failed...)
}

// newHome makes a home with the ring of the cluster: the first one makes the ring.
func (c *cluster) newHome(ctx context.Context) (string, error) {
	home := filepath.Join(c.dir, fmt.Sprint(c.started))
	c.started++
	if err := os.MkdirAll(home, 0o700); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(c.config), 0o600); err != nil {
		return "", err
	}
	ring := filepath.Join(c.dir, ringFile)
	keys, err := os.ReadFile(ring)
	if err == nil {
		return home, os.WriteFile(filepath.Join(home, ringFile), keys, 0o600)
	}
	if _, err := bed.Run(ctx, c.s.Allium, "--home", home, "token", "key", "rotate"); err != nil {
		return "", err
	}
	if keys, err = os.ReadFile(filepath.Join(home, ringFile)); err != nil {
		return "", err
	}
	return home, os.WriteFile(ring, keys, 0o600)
}

func (c *cluster) startMember(ctx context.Context, home string) (*member, error) {
	var seeds []string
	if c.seed != "" {
		seeds = []string{c.seed}
	}
	p, err := c.s.StartNodeAs(ctx, c.flags, bed.OnTCP, home, seeds...)
	if err != nil {
		return nil, err
	}
	m := &member{Process: p, home: home}
	socket, err := api.SocketPath(home)
	if err == nil {
		m.api, err = client.New(socket)
	}
	if err != nil {
		return nil, errors.Join(err, p.End())
	}
	return m, nil
}

// complete waits until each node sees so many members that are present.
func (c *cluster) complete(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, ringLimit)
	defer cancel()
	for _, m := range c.members {
		for {
			d, err := m.api.Durability(ctx)
			if err != nil {
				return fmt.Errorf("a node does not see %d members: %w", n, err)
			}
			if present(d) >= n {
				break
			}
			time.Sleep(ringLook)
		}
	}
	return nil
}

// present counts the members that are present.
func present(d api.Durability) (n int) {
	for _, m := range d.Members {
		if m.State == "present" {
			n++
		}
	}
	return n
}

// kill kills the nodes at once and takes them out of the cluster. It keeps their homes: the memory of removed files
// would speed up what is measured next.
func (c *cluster) kill(gone []*member) error {
	for _, m := range gone {
		if err := m.Cmd.Process.Kill(); err != nil {
			return err
		}
	}
	for _, m := range gone {
		_ = m.Cmd.Wait() // it was killed
		m.api.Close()
	}
	kept := c.members[:0:0]
	for _, m := range c.members {
		if m.Cmd.ProcessState == nil {
			kept = append(kept, m)
		}
	}
	c.members = kept
	return nil
}

// add adds a file of so many new bytes at a node, and waits until it has what flags ask for. It returns the address.
func (c *cluster) add(ctx context.Context, m *member, size int64, flags ...string) (key string, err error) {
	file := filepath.Join(c.s.Dir, "new")
	if err := newFile(file, size); err != nil {
		return "", err
	}
	added, err := bed.Run(ctx, c.s.Allium, append([]string{"--home", m.home, "add", "-q", file}, flags...)...)
	return strings.TrimSpace(added.Out), err
}

// read reads a range of an object through a node, and returns an error unless it has so many bytes.
func (m *member) read(ctx context.Context, key string, r b3.Range, size int64) error {
	s, err := m.api.Cat(ctx, key, r)
	if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, s.Body)
	if err = errors.Join(err, s.Body.Close()); err == nil && n != size {
		err = fmt.Errorf("%d of %d bytes of %s", n, size, key)
	}
	return err
}

// repairRate is the configuration of a node that repairs at so many bytes a second.
func repairRate(n int) string { return fmt.Sprintf("[store]\nrepair_rate = \"%d\"\n", n) }

// repairedBytes returns how many bytes of copies and shards the node has sent, and received for repairs of others.
func (m *member) repairedBytes(ctx context.Context) (float64, error) {
	counters, err := m.Counters(ctx)
	bytes := 0.0
	for _, kind := range []string{"replicate", "rebuild", "receive"} {
		bytes += counters[fmt.Sprintf("repair_bytes_total{kind=%q}", kind)]
	}
	return bytes, err
}

// stop ends all nodes and removes what they stored.
func (c *cluster) stop() error {
	return errors.Join(c.kill(c.members), os.RemoveAll(c.dir))
}

// Members measures how soon nodes with one ring and one seed know each other. All but the seed start at once.
func Members(ctx context.Context, s *bed.Settings) ([]measure.Row, error) {
	known := measure.Row{What: fmt.Sprintf("cluster: %d nodes know each other after", ringNodes),
		Unit: "s", Target: "≤ 5"}
	for range s.Rounds {
		c, err := newCluster(s, "ring", "")
		if err != nil {
			return nil, err
		}
		err = c.startAtOnce(ctx, 1)
		begun := time.Now()
		if err == nil {
			err = c.start(ctx, ringNodes-1)
		}
		took := time.Since(begun)
		if err = errors.Join(err, c.stop()); err != nil {
			return nil, err
		}
		known.Values = append(known.Values, took.Seconds())
	}
	return []measure.Row{known}, nil
}
