package own

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/internal/privatefile"
	"allium/protocols/name"
	"allium/protocols/status"
)

// Config says where the records are.
type Config struct {
	Home    string // the home directory
	Amnesia bool   // nothing is read or written, and nothing can be published
}

// Keys has the zones of the home directory; see [zones.Zones].
type Keys interface {
	// Key returns the key of a zone, not_found if it is not here.
	Key(zone name.Zone) (crypto.PrivKey, error)
	// Own returns the zones that the home directory has a key of.
	Own() ([]name.Zone, error)
	// Petnames returns the short names that the user chose.
	Petnames() ([]name.Entry, error)
}

// Deps holds the dependencies of a [Service]. Held, Floor, Published, Log, Metrics and Limits may be nil.
type Deps struct {
	env.Env

	Keys Keys
	// Send sends a record to the peers closest to its name, and returns how many took it.
	Send func(context.Context, name.Signed) (int, error)
	// Find returns the record that the peers have. With fresh the node's own copy does not count.
	Find func(ctx context.Context, n name.Name, fresh bool) (name.Versions, error)
	// Held returns the records of a zone that this node keeps for others. They replace those of a
	// damaged file.
	Held func(name.Zone) []name.Signed
	// Floor returns the highest sequence number of a name that this node has verified, 0 for none.
	// Nothing is signed with a lower one.
	Floor func(name.Name) uint64
	// Published is told of each record that was signed, once it is durable and before it is sent. It
	// should not wait for peers.
	Published  func(context.Context, name.Signed)
	ClockWrong func() bool // nothing is signed while it returns true
}

// Service publishes the names of own zones. Its methods are safe for concurrent use.
type Service struct {
	cfg    Config
	deps   Deps
	table  *table
	writes *limits.Gate  // one call signs and writes at a time
	wake   chan struct{} // a record is due
	m      *metrics

	replace func(file string, p []byte) error // privatefile.Replace
}

// New returns a service. It starts and reads nothing.
func New(cfg Config, d Deps) (*Service, error) {
	if d.Keys == nil || d.Send == nil || d.Find == nil || d.ClockWrong == nil {
		return nil, errors.New("ownnames: a dependency is missing")
	}
	d.Env.SetDefaults()
	if d.Held == nil {
		d.Held = func(name.Zone) []name.Signed { return nil }
	}
	if d.Floor == nil {
		d.Floor = func(name.Name) uint64 { return 0 }
	}
	if d.Published == nil {
		d.Published = func(context.Context, name.Signed) {}
	}
	s := &Service{
		cfg: cfg, deps: d, table: newTable(), wake: make(chan struct{}, 1),
		m: newMetrics(d.Metrics), replace: privatefile.Replace,
	}
	s.writes = d.Limits.NewGate(limits.Spec{
		Name: "own_names.writes", Path: "name publish, withdraw and renewals → records of own zones",
		Policy: "64 wait, the rest are refused with busy",
	}, 1, waiting)
	d.Limits.NewUsage(limits.Spec{
		Name: "own_names.records", Path: "name publish → records of own zones",
		Policy: "a further name is refused with quota; a zone has at most 1,000",
	}, maxRecords, s.table.len)
	return s, nil
}

// Request is a name to be published.
type Request struct {
	Name  name.Name
	Value name.Value // not empty
	TTL   time.Duration
	Life  time.Duration // MinLife to name.MaxLife
}

// Publish signs a record, writes it, and sends it to the peers. A record that no peer took is
// published nevertheless: State.Acks is 0 and State.Failed says why, and Run sends it again.
//
// The error is amnesia; not_found if the key of the zone is not here; not_ready while the clock is
// wrong; bad_request for a life, TTL or value out of bounds; conflict if the label looks like
// another of the zone; quota if there are too many; corrupt if the records of the zone cannot be
// read; busy; that of a write that failed; or ctx's before the record was written.
func (s *Service) Publish(ctx context.Context, r Request) (State, error) {
	if r.Value.Kind() == name.Withdrawn {
		return State{}, status.Errorf(status.BadRequest, "the value is empty; `allium name withdraw` takes a name back")
	}
	return s.publish(ctx, r)
}

// Withdraw publishes that a name has no value any more. The record lives as long as a record can,
// so that none that was signed before outlives it, and has the TTL of the one before, so that a name
// that is published again is known as soon. Withdrawing again changes nothing. The error is
// that of Publish, and not_found if neither this node nor its peers have a record of the name.
func (s *Service) Withdraw(ctx context.Context, n name.Name) (State, error) {
	old, known := s.table.get(n)
	if known && old.Value.Kind() == name.Withdrawn && old.Problem == "" && s.deps.Now().Before(old.NotAfter) {
		return old.State, nil
	}
	return s.publish(ctx, Request{Name: n, TTL: cmp.Or(old.TTL, name.DefaultTTL), Life: name.MaxLife})
}

// OnlyZone returns the zone for a label without one: the only zone whose key this node has. The error is bad_request if
// there are several, and lists them; it is not_found if there is none.
func (s *Service) OnlyZone() (name.Zone, error) {
	own, err := s.deps.Keys.Own()
	switch {
	case err != nil:
		return name.Zone{}, err
	case len(own) == 1:
		return own[0], nil
	case len(own) == 0:
		return name.Zone{}, status.Errorf(status.NotFound,
			"there is no zone to publish in; make one with `allium zone new`")
	}
	var list []string
	for _, zone := range own[:min(len(own), 8)] {
		text := zone.String()
		if short := s.Short(zone); !short.IsZero() {
			text = short.String()
		}
		list = append(list, text)
	}
	return name.Zone{}, status.Errorf(status.BadRequest, "there are %d own zones, %s; name one, as in LABEL.%s",
		len(own), strings.Join(list, ", "), list[0])
}

// Petname returns the zone with a petname, as the file has it now: a zone that was just made can be
// published in at once.
func (s *Service) Petname(short string) (name.Zone, bool) {
	entries, _ := s.deps.Keys.Petnames() // the watcher of the short names reports what cannot be read
	for _, e := range entries {
		if e.Short.String() == short {
			return e.Zone, true
		}
	}
	return name.Zone{}, false
}

// Short returns the petname of a zone, zero if it has none or the petnames cannot be read.
func (s *Service) Short(zone name.Zone) name.Label {
	entries, _ := s.deps.Keys.Petnames()
	for _, e := range entries {
		if e.Zone == zone {
			return e.Short
		}
	}
	return name.Label{}
}

// List returns the names that this node publishes, in the order of their zones and labels, and the
// names that it withdrew until those records expire.
func (s *Service) List() []State { return s.table.all() }

func (s *Service) publish(ctx context.Context, r Request) (State, error) {
	if s.cfg.Amnesia {
		return State{}, status.Errorf(status.Amnesia,
			"node.amnesia keeps everything in RAM, and a name needs the key of a "+
				"zone and a record on disk; turn it off, or publish from another home directory")
	}
	if r.Life < MinLife || r.Life > name.MaxLife {
		return State{}, status.Errorf(status.BadRequest, "the life is %s; give %s to %s", r.Life, MinLife, name.MaxLife)
	}
	if r.TTL < name.MinTTL || r.TTL > name.MaxTTL || r.TTL%time.Second != 0 {
		return State{}, status.Errorf(status.BadRequest,
			"the TTL is %s; give whole seconds from %s to %s", r.TTL, name.MinTTL, name.MaxTTL)
	}
	key, err := s.deps.Keys.Key(r.Name.Zone)
	if err != nil {
		return State{}, err
	}
	if err := s.retry(ctx, r.Name.Zone); err != nil {
		return State{}, err
	}
	own, known := s.table.get(r.Name)
	checked, last := own.checked, own.Seq
	if !checked {
		found, err := s.find(ctx, r.Name)
		checked, last = err == nil, found.Seq()
		if r.Value.Kind() == name.Withdrawn && last == 0 && !known {
			return State{}, status.Errorf(status.NotFound, "neither this node nor its peers have a record of %s; "+
				"`allium name ls` lists the names of this node", r.Name)
		}
	}
	rec, err := s.sign(ctx, key, r, last, checked, nil)
	if err != nil {
		return State{}, err
	}
	s.deps.Published(ctx, rec)
	s.send(ctx, rec)
	now, _ := s.table.get(r.Name)
	return now.State, nil
}

// find asks the peers for the record of a name.
func (s *Service) find(ctx context.Context, n name.Name) (name.Versions, error) {
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	return s.deps.Find(ctx, n, true)
}

// sign signs a record with a sequence number above last and above the own record, and writes it.
// The caller works on the record then. With replaces it does so only if that is still the own
// record.
func (s *Service) sign(
	ctx context.Context, key crypto.PrivKey, r Request, last uint64, checked bool, replaces *name.Signed,
) (rec name.Signed, err error) {
	release, err := s.writes.Acquire(ctx)
	if err != nil {
		return rec, err
	}
	defer release()
	if s.deps.ClockWrong() {
		return rec, status.Errorf(status.NotReady, "this machine's clock is wrong, so nothing is signed; set it")
	}
	own, _ := s.table.get(r.Name)
	if replaces != nil && own.Seq != replaces.Seq {
		return rec, errReplaced
	}
	now := s.deps.Now()
	rec, err = name.Sign(key, name.Record{
		Name: r.Name, Seq: name.NextSeq(max(last, own.Seq, s.deps.Floor(r.Name)), now), Value: r.Value,
		NotAfter: now.Add(r.Life).Truncate(time.Second).UTC(), TTL: r.TTL,
	}, now)
	if err != nil {
		return rec, err
	}
	all, err := s.table.with(rec, now)
	if err != nil {
		return rec, err
	}
	if err := s.replace(fileOf(s.cfg.Home, r.Name.Zone), encode(all)); err != nil {
		return rec, status.Errorf(status.Of(err), "the record is not published: %w", err)
	}
	s.table.set(rec, checked, true, now)
	s.m.signed.Inc()
	return rec, nil
}

// errReplaced reports that a record was published while another was to be signed again.
var errReplaced = errors.New("a newer record was published")
