package gateway

import "allium/gateway/api"

// fakeOverview has each part of an overview, with an entry in each list.
var fakeOverview = api.Overview{
	At: fakeTime, ID: fakeID.ID, Profile: "testnet",
	Ready: api.Readiness{Reads: true, Writes: true, Gates: []api.Gate{
		{Name: "store", Ready: true, Have: 1, Need: 1, Since: fakeTime},
		{Name: "routing_table", Have: 1, Need: 4, Since: fakeTime, RetryAfter: 5, Fix: "Wait for peers."},
	}},
	Now: &api.OverviewNow{
		Process: fakeHealth.Process, Clock: fakeHealth.Clock, Store: fakeStore, Traffic: api.Traffic{In: 4096, Out: 1 << 20},
		Limits: []api.Limit{{
			Name: "gateway.requests", Kind: "gate", Capacity: 8, Current: 7, Peak: 8, Rejected: 3, Policy: "reject busy",
		}},
		LimitsLeft: 90,
		Transfers: []api.Transfer{{
			LookupHead: fakeLookup.Others[0], Bytes: 1 << 20, Peers: 2, Here: 3 << 20, Size: 9 << 20,
		}},
	},
	Peers: &api.OverviewPeers{
		Addrs: fakeID.Addrs, Reach: fakeReach, Table: fakeHealth.Table, Seeds: fakeSeeds, PeersLeft: 1,
		Peers: []api.PeerQuality{{Peer: fakePeer, Relayed: true, Breaker: "open", Rate: 1e6, Busy: true}},
	},
	Content: &api.OverviewContent{
		Store: fakeStore, PinsLeft: true, Durability: &fakeDurability, Damage: &fakeDamage, ArrivingLeft: 2,
		Pins: []api.PinCopies{{
			Pin: fakePin, Wanted: 3, Observed: 2, State: "at_risk", Objects: 5, Met: 4,
		}},
		Arriving: []api.Arriving{{
			Root: fakeRoot, Size: 1 << 20, Stored: 1 << 19, Running: true, Cells: []int{100, 50, 0, 0},
		}},
	},
	Names: &api.OverviewNames{
		Own: []api.OwnName{fakeOwnName}, WatchedLeft: 1,
		Watched: []api.WatchedName{{
			Name: "news.k51", Followers: 2, Value: fakeRoot.String(), Seq: 4, NotAfter: fakeTime.AddDate(0, 0, 3),
		}},
	},
	Lookups: &api.OverviewLookups{
		Lookups: []api.LookupHead{fakeLookup.Lookup.LookupHead, fakeLookup.Others[0]}, Left: 3,
	},
	Reload: &api.OverviewReload{
		File: fakeConfiguration.File, Values: fakeConfiguration.Values, Reloads: []api.Reloaded{fakeReloaded},
	},
	Testnet: &api.OverviewTestnet{
		Faults: fakeFaults,
		Space: []api.SpaceNode{
			{ID: fakeID.ID, At: 0.25, Self: true, Connected: true},
			{ID: "12D4", At: 0.5, Connected: true, Table: true, Bucket: 1},
			{ID: "12D5", At: 0.75, Table: true, Fails: 2},
		},
		SpaceLeft: 1,
	},
}
