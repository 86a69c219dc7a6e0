package api

import (
	"context"
	"fmt"
	"time"

	"allium/protocols/capability"
	"allium/protocols/status"
)

// Control has the calls for the operator of a node.
type Control interface {
	// Faults says what the node does wrong on purpose.
	Faults(ctx context.Context) (Faults, error)
	// SetFaults replaces what the node does wrong on purpose, all of it, and
	// returns what holds now. It is unsupported unless node.profile is testnet.
	SetFaults(ctx context.Context, f Faults) (Faults, error)

	// Reload lets the node read its configuration and its files again, and apply the
	// new values of hot keys. What cannot be read changes nothing.
	Reload(ctx context.Context, r ReloadRequest) (Reloaded, error)
	// ReloadStatus returns one of the latest reloads; not_found says that the token
	// names none of them.
	ReloadStatus(ctx context.Context, token string) (Reloaded, error)
	// Configuration returns the configuration that is in force.
	Configuration(ctx context.Context) (Configuration, error)
	// Drain begins the orderly shutdown of SPEC §10 and returns when it has
	// begun.
	Drain(ctx context.Context) error
}

var controlVerbs = []*Verb{
	verbFaults.Verb, verbReload.Verb, verbReloadStatus.Verb, verbConfiguration.Verb, verbDrain.Verb,
}

var (
	verbFaults = value(Spec{
		ID: "Faults", Path: "faults", Doc: "Returns the faults that a node of a testnet injects.", Answer: "the faults",
	}, plain(Node.Faults))
	verbDrain = value(Spec{
		ID: "Drain", Path: "drain", Admin: "drain", Op: capability.Drain,
		Doc: "Starts the orderly shutdown of the node.", Answer: "the shutdown has started",
	}, action(Node.Drain))
)

// Faults implements Control.
func (r remoteControl) Faults(ctx context.Context) (Faults, error) {
	return verbFaults.send(ctx, r.caller, none{})
}

// Drain implements Control.
func (r remoteControl) Drain(ctx context.Context) error { return verbDrain.do(ctx, r.caller, none{}) }

// Drain begins the orderly shutdown and returns once it has begun.
func (a Admin) Drain(ctx context.Context) error {
	_, err := verbDrain.repeat(ctx, a, none{})
	return err
}

// Bounds of Faults.
const (
	MaxFaultLinks = 256              // links with a fault
	MaxFaultAddrs = 16               // addresses of one link
	MaxFaultDelay = 10 * time.Second // of a link, and of its jitter
	MaxFaultSkew  = 400 * 24 * time.Hour
	MinFaultRate  = 1 << 10 // bytes per second
)

// Faults are the faults that a node of a testnet shows on purpose. They are the whole
// state: setting it replaces what was set before, and the zero value heals
// everything. A node that is started again has none.
type Faults struct {
	Links []LinkFault `json:"links,omitempty"` // at most MaxFaultLinks, one for each peer

	// Corrupt makes the node a liar: in every object that it serves to peers one
	// bit is wrong. Of a name it serves the first record that it ever served, or one
	// with a wrong bit while that is the current one. What it stores, and serves to
	// its own user, is not touched.
	Corrupt bool `json:"corrupt,omitempty"`
	// FullDisk lets the store see no free byte on its disk. A store in RAM has
	// none, and refuses it.
	FullDisk bool `json:"full_disk,omitempty"`
	// ClockSkewMS is added to the clock by which the node dates what it signs and
	// judges whether what others signed has expired: provider records,
	// announcements, seed manifests. Durations, deadlines, certificates, the
	// store's times and the log go by the true clock.
	ClockSkewMS int64 `json:"clock_skew_ms,omitempty"`
	// Rate bounds what the node sends to all peers together, bytes per second, at
	// least MinFaultRate; 0 is no bound.
	Rate int64 `json:"rate,omitempty"`
}

// LinkFault is a fault of the packets to and from one peer. Delay and
// loss are of what it sends; both ends have to be told for a link that is slow
// in both directions. A cut at one end is a cut.
type LinkFault struct {
	Peer string `json:"peer"` // its id
	// Addrs are the multiaddrs where the peer listens, with /p2p/ID or without:
	// QUIC knows packets by address. Those that the node knows itself need not be
	// named. At most MaxFaultAddrs.
	Addrs    []string `json:"addrs,omitempty"`
	Cut      bool     `json:"cut,omitempty"`       // nothing passes, either way, and nobody is told
	DelayMS  int64    `json:"delay_ms,omitempty"`  // one way
	JitterMS int64    `json:"jitter_ms,omitempty"` // each packet is late by up to this much more
	Loss     float64  `json:"loss,omitempty"`      // of packets, 0 to 1; over TCP a lost one is sent again 200 ms later
}

// Delay returns DelayMS as a duration.
func (l LinkFault) Delay() time.Duration { return time.Duration(l.DelayMS) * time.Millisecond }

// Jitter returns JitterMS as a duration.
func (l LinkFault) Jitter() time.Duration { return time.Duration(l.JitterMS) * time.Millisecond }

// ClockSkew returns ClockSkewMS as a duration.
func (f Faults) ClockSkew() time.Duration { return time.Duration(f.ClockSkewMS) * time.Millisecond }

// Validate returns bad_request for the first value that is out of bounds. It does not
// parse ids and addresses.
func (f Faults) Validate() error {
	bad := func(format string, args ...any) error {
		return status.Errorf(status.BadRequest, "faults: %s", fmt.Sprintf(format, args...))
	}
	const delay, skew = int64(MaxFaultDelay / time.Millisecond), int64(MaxFaultSkew / time.Millisecond)
	switch {
	case len(f.Links) > MaxFaultLinks:
		return bad("%d links; at most %d", len(f.Links), MaxFaultLinks)
	case f.ClockSkewMS < -skew || f.ClockSkewMS > skew:
		return bad("clock_skew_ms is %d, must be -%d to %d", f.ClockSkewMS, skew, skew)
	case f.Rate != 0 && f.Rate < MinFaultRate:
		return bad("rate is %d, must be at least %d bytes/s, or 0 for no bound", f.Rate, MinFaultRate)
	}
	seen := map[string]bool{}
	for _, l := range f.Links {
		switch {
		case l.Peer == "":
			return bad("a link has no peer")
		case seen[l.Peer]:
			return bad("two links to %s", l.Peer)
		case len(l.Addrs) > MaxFaultAddrs:
			return bad("the link to %s has %d addresses; at most %d", l.Peer, len(l.Addrs), MaxFaultAddrs)
		case l.DelayMS < 0 || l.DelayMS > delay:
			return bad("delay_ms of the link to %s is %d, must be 0 to %d", l.Peer, l.DelayMS, delay)
		case l.JitterMS < 0 || l.JitterMS > delay:
			return bad("jitter_ms of the link to %s is %d, must be 0 to %d", l.Peer, l.JitterMS, delay)
		case !(l.Loss >= 0 && l.Loss <= 1): // true for NaN too
			return bad("loss of the link to %s is %v, must be 0 to 1", l.Peer, l.Loss)
		}
		seen[l.Peer] = true
	}
	return nil
}

// Version says which program runs.
type Version struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	// when the commit was made, in RFC 3339; empty when the build does not know its commit
	Date     string `json:"date,omitempty"`
	Modified bool   `json:"modified"` // whether files differed from the commit
	Go       string `json:"go"`
	OS       string `json:"os"`   // as Go calls it, such as linux
	Arch     string `json:"arch"` // as Go calls it, such as amd64
	// "memory locked" or "memory not locked"; empty when the node writes to disk
	Amnesia string `json:"amnesia,omitempty"`
}
