package hints

import (
	"time"
)

// Params are fixed numbers of announcements. Tests set them through [Config].
type Params struct {
	// TTL is the life of the announcements that this node signs. By its end the DHT has the records.
	// Receivers then drop the announcement.
	TTL time.Duration `fixed:"ttl"`

	// Linger is the time for which objects are collected for one announcement.
	Linger time.Duration `fixed:"linger"`

	// Queue bounds the objects waiting to be announced or withdrawn. Further ones are found through the
	// DHT only.
	Queue int `fixed:"queue"`

	// MaxAnnouncements bounds the remembered announcements, of up to 512 objects each; one provider has
	// at most an eighth. The provider with most loses its oldest. It is at most buckets × maxIDs / 2,
	// the number that a comparison can name: an answer then has space for every bucket, so that each bucket
	// is named at some time. MaxBytes bounds their memory.
	MaxAnnouncements int `fixed:"max_announcements"`

	// SyncSoon is the time from a new announcement to the next comparison, ± 20 %. After a comparison
	// that found a difference it is a quarter of that. It is at most SyncInterval.
	SyncSoon time.Duration `fixed:"sync_soon"`

	// SyncServed bounds the comparisons served at a time. Further ones get busy.
	SyncServed int `fixed:"sync_served"`

	// SyncPeerRate bounds the comparisons per second that the peers of one IP group may request, or one
	// peer that is in none, with a burst of four times as many; then rate_limit.
	SyncPeerRate int `fixed:"sync_peer_rate"`
}

// defaultParams returns the values that every node uses.
func defaultParams() Params {
	return Params{
		TTL:              time.Hour,
		Linger:           250 * time.Millisecond,
		Queue:            4096,
		MaxAnnouncements: 20_000,
		SyncSoon:         500 * time.Millisecond,
		SyncServed:       8,
		SyncPeerRate:     4,
	}
}
