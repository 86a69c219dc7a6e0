// Package durability has what an operator chooses about copies on other nodes: the keys durability.* of the
// configuration.
package durability

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/limits"
	"allium/store/cluster/plan"
	"allium/store/meta"
)

// Config has what an operator chooses about copies on other nodes.
type Config struct {
	Members     []string      `koanf:"members"`
	Offer       limits.Bytes  `koanf:"offer"`
	Targets     []string      `koanf:"targets"`
	AuditPeriod time.Duration `koanf:"audit_period"`
	Grace       time.Duration `koanf:"grace"`
}

// The bounds of times in a Config.
const (
	leastTime  = 10 * time.Second
	longestRun = 30 * 24 * time.Hour // of an audit period
	longGrace  = 24 * time.Hour
)

// Default returns the settings of a node.
func Default() Config { return configOf(plan.DefaultParams()) }

// Testnet returns the settings of a node in a testnet.
func Testnet() Config { return configOf(plan.TestnetParams()) }

func configOf(p plan.Params) Config { return Config{AuditPeriod: p.AuditPeriod, Grace: p.Grace} }

// Params returns p with the times of c.
func (c Config) Params(p plan.Params) plan.Params {
	p.AuditPeriod, p.Grace = c.AuditPeriod, c.Grace
	return p
}

// Validate names each key that is out of its bounds.
func (c Config) Validate() error {
	_, peers := c.Only()
	_, targets := c.Copies()
	errs := []error{peers, targets}
	if c.Offer < 0 {
		errs = append(errs, fmt.Errorf("durability.offer is %s, must be 0 or more", c.Offer))
	}
	if c.AuditPeriod < leastTime || c.AuditPeriod > longestRun {
		errs = append(errs,
			fmt.Errorf("durability.audit_period is %s, must be %s to %s", c.AuditPeriod, leastTime, longestRun))
	}
	if c.Grace < leastTime || c.Grace > longGrace {
		errs = append(errs, fmt.Errorf("durability.grace is %s, must be %s to %s", c.Grace, leastTime, longGrace))
	}
	return errors.Join(errs...)
}

// Only returns the peers that may be members. It is empty if all with a key of the ring may.
func (c Config) Only() (ids []peer.ID, err error) {
	if len(c.Members) > plan.MaxMembers {
		return nil, fmt.Errorf("durability.members has %d entries, at most %d", len(c.Members), plan.MaxMembers)
	}
	for _, s := range c.Members {
		id, err := peer.Decode(s)
		if err != nil {
			return nil, fmt.Errorf("durability.members has %q, which is no peer id: %w", s, err)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// Copies returns the copies or shards that pins ask for that say nothing of it, by label.
func (c Config) Copies() (map[string]meta.Target, error) {
	copies := map[string]meta.Target{}
	for _, s := range c.Targets {
		i := strings.LastIndexByte(s, '=')
		if i < 0 {
			return nil, fmt.Errorf("durability.targets has %q: want label=copies, such as photos=3 or photos=6+3", s)
		}
		label, asked := s[:i], s[i+1:]
		n, err := strconv.Atoi(asked)
		target := meta.Target{Copies: n}
		if strings.Contains(asked, "+") {
			target, err = meta.ParseShards(asked)
		} else if n < 1 || n > meta.MaxCopies {
			err = fmt.Errorf("there may be 1 to %d copies", meta.MaxCopies)
		}
		if err != nil {
			return nil, fmt.Errorf("durability.targets has %q: want label=copies, such as photos=3 or photos=6+3: %w",
				s, err)
		}
		if err := meta.CheckLabel(label); err != nil {
			return nil, fmt.Errorf("durability.targets has %q: %w", s, err)
		}
		if _, twice := copies[label]; twice || meta.OfCluster(label) {
			return nil, fmt.Errorf("durability.targets has %q: a label comes once, and is none of the cluster's", s)
		}
		copies[label] = target
	}
	return copies, nil
}
