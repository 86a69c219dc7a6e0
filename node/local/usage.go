package local

import (
	"context"

	"allium/gateway/api"
)

// StatStore implements api.Store. It reads counters only.
func (a *stored) StatStore(context.Context) (api.StoreStat, error) {
	st, sp := a.st.Stats(), a.st.Collector().Space()
	u := st.Usage
	s := api.StoreStat{
		Backend: st.Backend, Objects: st.Objects, Bytes: st.Bytes,
		SmallBytes: st.Bytes - u.LargeBytes, LargeBytes: u.LargeBytes, OutboardBytes: u.OutboardBytes,
		PartialObjects: st.PartialObjects, PartialBytes: st.PartialBytes,
		Uploads: st.Uploads.Open, UploadBytes: st.Uploads.Bytes, Corrupt: st.Corrupt,
		Leases: st.Leases, Ingests: st.Ingests,
		Space: api.StoreSpace{
			Used: api.GCCount(sp.Used), Max: api.GCCount(sp.Max), Low: api.GCCount(sp.Low),
			Free: sp.Free, Reserve: sp.Reserve,
			Pinned: api.GCCount(sp.Pinned), Evictable: api.GCCount(sp.Evictable), Full: sp.Full,
			FullReason: sp.FullReason,
		},
		Segments: api.Segments{
			Files: u.Segments, Bytes: u.SegmentBytes - u.SpareBytes, LiveBytes: u.SegmentLiveBytes,
			Spares: u.Spares, SpareBytes: u.SpareBytes,
			Compactions: u.Compactions, CompactedBytes: u.CompactedBytes, ReclaimedBytes: u.ReclaimedBytes,
		},
		Index: u.IndexBytes,
		Hot:   api.HotTier(st.Hot),
		Scrub: api.ScrubState{
			Running: st.Scrub.Running, Started: st.Scrub.Started,
			Objects: st.Scrub.Objects, Bytes: st.Scrub.Bytes, Bad: st.Scrub.Bad,
			Progress: st.Scrub.Progress, LastEnd: st.Scrub.LastEnd, LastBad: st.Scrub.LastBad,
		},
		GC: api.GCState{
			Runs: st.GC.Ended, LastEnd: st.GC.LastEnd, LastTookMS: milliseconds(st.GC.LastTook),
			LastRemoved: api.GCCount(st.GC.LastRemoved),
		},
	}
	if u.FreeBytes > 0 {
		s.Space.Free = u.FreeBytes // newer than the collector's figure
	}
	if st.WriteErr != nil {
		s.WriteErr = st.WriteErr.Error()
	}
	return s, nil
}
