package members

import (
	"context"
	"errors"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/jitter"
	"allium/protocols/record"
	"allium/store/cluster/plan"
)

// The members are kept in the records of the node, so that after a restart it knows them before they are heard: what
// they hold is not taken for missing meanwhile.
const (
	// RecordsSpace is the namespace of the members in the records of the node.
	RecordsSpace = "members"
	// rememberEvery is the time between two looks at whether members have changed.
	rememberEvery = 5 * time.Second
	recordsTime   = 5 * time.Second
	maxRemembered = 1 << 20 // bytes
)

var (
	rememberedKey   = ds.NewKey(RecordsSpace + "/all")
	rememberedCodec = record.NewCodec(plan.MaxMembers)
)

// remembered is a member in the records.
type remembered struct {
	_        struct{} `cbor:",toarray"`
	ID       []byte
	Domain   string
	Region   string
	Network  string
	Capacity uint64
	Free     uint64
	Draining bool
	Gone     uint64 // when it was heard last, Unix milliseconds; 0: it is present
}

type rememberedList struct {
	Members []remembered `cbor:"1,keyasint"`
}

// restore takes over the members that are in the records. A record that cannot be read is left out: its member is heard
// soon.
func (s *Service) restore(ctx context.Context) {
	if s.deps.Records == nil || len(s.deps.Ring.Derive(rendezvousContext)) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recordsTime)
	defer cancel()
	data, err := s.deps.Records.Get(ctx, rememberedKey)
	if errors.Is(err, ds.ErrNotFound) {
		return
	}
	var all rememberedList
	if err == nil && len(data) <= maxRemembered {
		err = rememberedCodec.Unmarshal(data, &all)
	}
	if err != nil {
		s.deps.Log.Warn("the members that were known before the restart cannot be read; they are heard soon", "err",
			err)
		return
	}
	now := s.deps.Now()
	var list []plan.Remembered
	for _, m := range all.Members {
		id, err := peer.IDFromBytes(m.ID)
		if err != nil || !s.cfg.mayBe(id) {
			continue
		}
		list = append(list, plan.Remembered{
			Member: plan.Member{
				ID: plan.ID(id), Place: plan.Place{Domain: m.Domain, Region: m.Region, Network: m.Network},
				Capacity: m.Capacity, Free: m.Free, Draining: m.Draining, Gone: m.Gone > 0,
			},
			Last: time.UnixMilli(int64(m.Gone)),
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cluster.Restore(list, now)
}

// remember writes the members to the records when they have changed, until ctx ends.
func (s *Service) remember(ctx context.Context) {
	if s.deps.Records == nil {
		return
	}
	version := uint64(0)
	for jitter.Sleep(ctx, rememberEvery) {
		v := s.View()
		if v.Version() == version {
			continue
		}
		if err := s.writeMembers(ctx); err != nil {
			s.deps.Log.Debug("the members are not kept over a restart", "err", err)
			continue
		}
		version = v.Version()
	}
}

func (s *Service) writeMembers(ctx context.Context) error {
	var all rememberedList
	s.mu.Lock()
	list := s.cluster.Remember(s.deps.Now())
	s.mu.Unlock()
	for _, r := range list {
		m := remembered{
			ID: []byte(r.ID), Domain: r.Place.Domain, Region: r.Place.Region, Network: r.Place.Network,
			Capacity: r.Capacity, Free: r.Free, Draining: r.Draining,
		}
		if r.Gone {
			m.Gone = uint64(r.Last.UnixMilli())
		}
		all.Members = append(all.Members, m)
	}
	data, err := rememberedCodec.Marshal(all)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, recordsTime)
	defer cancel()
	return errors.Join(
		s.deps.Records.Put(ctx, rememberedKey, data), s.deps.Records.Sync(ctx, ds.NewKey(RecordsSpace)))
}
