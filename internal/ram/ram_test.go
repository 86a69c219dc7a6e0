package ram

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
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
		if got := cgroup(root); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// TestUsable: GOMEMLIMIT counts, and a share stays within its bounds.
func TestUsable(t *testing.T) {
	all := Usable()
	if all <= 0 || all == math.MaxInt64 {
		t.Fatalf("%d bytes are usable", all)
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(64 << 20))
	if got := Usable(); got != min(all, 64<<20) {
		t.Errorf("%d bytes are usable of a limit of 64 MiB", got)
	}
	for _, test := range []struct{ part, least, most, want int64 }{{64, 1, 1 << 40, 1 << 20},
		{64, 8 << 20, 1 << 40, 8 << 20}, {2, 1, 1 << 20, 1 << 20}} {
		if got := Share(test.part, test.least, test.most); got != test.want {
			t.Errorf("a share of %+v is %d", test, got)
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
	usable := Usable()
	t.Setenv("GOMEMLIMIT", "64MiB")
	if limit, from := SetLimit(true); from != FromUser || limit != debug.SetMemoryLimit(-1) || Usable() != usable {
		t.Errorf("with a GOMEMLIMIT the limit is %d from %s", limit, from)
	}
	t.Setenv("GOMEMLIMIT", "")
	limit, from := SetLimit(true)
	if from != FromCgroup && from != FromMachine || limit >= usable || debug.SetMemoryLimit(-1) != limit {
		t.Errorf("of %d bytes the limit is %d from %s", usable, limit, from)
	}
	if Usable() != usable {
		t.Errorf("%d bytes are usable, and %d before", Usable(), usable)
	}
}
