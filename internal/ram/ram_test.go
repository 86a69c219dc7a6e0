package ram

import (
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// TestCgroup: the lowest limit of a group and those above it counts.
func TestCgroup(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"none": {nil, math.MaxInt64},
		"unlimited": {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"},
			math.MaxInt64},
		"v2": {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "4096\n",
			"sys/fs/cgroup/a/b/memory.max": "8192\n"}, 4096},
		"container": {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "12345\n"}, 12345},
		"v1": {map[string]string{
			"proc/self/cgroup": "3:cpu,cpuacct:/x\n2:memory:/x\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes":     "777\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":       "9223372036854771712\n",
			"sys/fs/cgroup/cpu/x/memory.limit_in_bytes":        "1\n",
			"sys/fs/cgroup/memory/other/memory.limit_in_bytes": "1\n",
		}, 777},
		"damaged": {map[string]string{"proc/self/cgroup": "what\n0::/\n", "sys/fs/cgroup/memory.max": "-3\n"},
			math.MaxInt64},
	} {
		root := t.TempDir()
		for file, v := range test.files {
			at := filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, []byte(v), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := Cgroup(root); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// TestUsable: the least of three bounds counts, and GOMEMLIMIT is one.
func TestUsable(t *testing.T) {
	const none = math.MaxInt64
	for _, test := range []struct {
		goLimit, cgroup, machine, want int64
		from                           string
	}{
		{none, none, none, fallback, FromNothing},
		{none, none, 8, 8, FromMachine},
		{none, 4, 8, 4, FromCgroup},
		{none, 8, 8, 8, FromMachine},
		{none, 9, 8, 8, FromMachine},
		{2, 4, 8, 2, FromUser},
		{5, 4, none, 4, FromCgroup},
	} {
		if got, from := usable(test.goLimit, test.cgroup, test.machine); got != test.want || from != test.from {
			t.Errorf("%+v: %d from %s", test, got, from)
		}
	}
	all, _ := Usable()
	if all <= 0 || all == none {
		t.Fatalf("%d bytes are usable", all)
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(64 << 20))
	if got, _ := Usable(); got != min(all, 64<<20) {
		t.Errorf("%d bytes are usable of a limit of 64 MiB", got)
	}
	if Mine() != Divide(min(all, 64<<20)) {
		t.Errorf("the shares are %+v", Mine())
	}
}

// TestDivide: the shares follow the memory, and leave a quarter of it or more.
func TestDivide(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for total, want := range map[int64]Shares{
		mib:           {Peers: mib / 2, Index: 8 * mib, Hot: mib},
		128 * mib:     {Peers: 64 * mib, Index: 8 * mib, Hot: 16 * mib},
		256 * mib:     {Peers: 128 * mib, Index: 8 * mib, Hot: 32 * mib},
		512 * mib:     {Peers: 256 * mib, Index: 8 * mib, Hot: 64 * mib},
		1024 * mib:    {Peers: 256 * mib, Index: 16 * mib, Hot: 128 * mib},
		4096 * mib:    {Peers: 1024 * mib, Index: 64 * mib, Hot: 512 * mib},
		1 << 20 * mib: {Peers: 1 << 18 * mib, Index: 64 * mib, Hot: 1 << 17 * mib},
	} {
		got := Divide(total)
		if got != want {
			t.Errorf("of %d MiB the shares are %+v, want %+v", total/mib, got, want)
		}
		if total > mib && got.Sum() > total/4*3 {
			t.Errorf("of %d MiB the shares leave too little: %+v", total/mib, got)
		}
	}
}

// TestGoLimit: the tighter of the cgroup's and the machine's share is the limit.
func TestGoLimit(t *testing.T) {
	const none, gib = math.MaxInt64, 1 << 30
	for _, test := range []struct {
		cgroup, machine int64
		small           bool
		want            int64
		from            string
	}{
		{none, none, false, none, FromNothing},
		{none, none, true, none, FromNothing},
		{none, 8 * gib, false, 6 * gib, FromMachine},
		{none, 8 * gib, true, 4 * gib, FromMachine},
		{gib, none, true, gib / 10 * 9, FromCgroup},
		{gib, 8 * gib, false, gib / 10 * 9, FromCgroup},
		{gib, 8 * gib, true, gib / 10 * 9, FromCgroup},
		{8 * gib, 8 * gib, false, 6 * gib, FromMachine},
	} {
		if limit, from := goLimit(test.cgroup, test.machine, test.small); limit != test.want || from != test.from {
			t.Errorf("%+v: %d from %s", test, limit, from)
		}
	}
}

// TestSetLimit: the runtime gets the limit, a GOMEMLIMIT stays, and neither changes what a share is of.
func TestSetLimit(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	usable, _ := Usable()
	t.Setenv("GOMEMLIMIT", "64MiB")
	if limit, from := SetLimit(true); from != FromUser || limit != debug.SetMemoryLimit(-1) || Mine() != Divide(usable) {
		t.Errorf("with a GOMEMLIMIT the limit is %d from %s", limit, from)
	}
	t.Setenv("GOMEMLIMIT", "")
	limit, from := SetLimit(true)
	if from != FromCgroup && from != FromMachine || limit >= usable || debug.SetMemoryLimit(-1) != limit {
		t.Errorf("of %d bytes the limit is %d from %s", usable, limit, from)
	}
	if again, _ := Usable(); again != usable {
		t.Errorf("%d bytes are usable, and %d before", again, usable)
	}
}

// TestLimit: the log has one line about the memory, and a warning if the parts want more than there is.
func TestLimit(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	total, _ := Usable()
	for objects, lines := range map[int64]int{0: 1, total: 2} {
		var log strings.Builder
		parts := Divide(total)
		parts.Objects = objects
		Limit(false, parts, slog.New(slog.NewTextHandler(&log, nil)))
		if got := strings.Count(log.String(), "\n"); got != lines || strings.Count(log.String(), "level=WARN") != lines-1 {
			t.Errorf("with %d bytes for objects the log has %s", objects, log.String())
		}
	}
}
