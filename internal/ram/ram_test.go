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
		"none":      {nil, math.MaxInt64},
		"unlimited": {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, math.MaxInt64},
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
		"damaged": {map[string]string{"proc/self/cgroup": "what\n0::/\n", "sys/fs/cgroup/memory.max": "-3\n"}, math.MaxInt64},
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
