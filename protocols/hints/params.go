package hints

import (
	"time"
)

// Params are the numbers of announcements that nobody tunes. Tests set them through [Config].
type Params struct {
	// TTL is the life of the announcements this node signs: by then the DHT knows. Receivers drop them
	// afterwards.
	TTL time.Duration `fixed:"ttl"`

	// Linger is how long objects are gathered to be announced together.
	Linger time.Duration `fixed:"linger"`

	// Queue bounds the objects waiting to be announced or withdrawn. Those beyond are found through
	// the DHT alone.
	Queue int `fixed:"queue"`

	// MaxAnnouncements bounds the announcements held, of up to 512 objects each; one provider has at
	// most an eighth. Those that end first make room. It is at most mostHeld, which a comparison can
	// name; MaxBytes bounds their memory.
	MaxAnnouncements int `fixed:"max_announcements"`

	// SyncSoon is the time from something new to the next comparison, ± 20 %, and a quarter of it
	// after a comparison that found a difference. It is at most SyncInterval.
	SyncSoon time.Duration `fixed:"sync_soon"`

	// SyncServed bounds the comparisons answered at once. Further ones get busy.
	SyncServed int `fixed:"sync_served"`

	// SyncPeerRate bounds the comparisons per second that peers of one IP group may ask for, or one
	// peer where it is in none, with a burst of four times as many; then rate_limit.
	SyncPeerRate int `fixed:"sync_peer_rate"`
}

// defaultParams returns the values that hold.
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
