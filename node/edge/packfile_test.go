package edge

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMeantAsFile: a key that ends as files of packs do is still a key.
func TestMeantAsFile(t *testing.T) {
	t.Parallel()
	for what, want := range map[string]bool{
		"city.pmtiles": true, "city.mbtiles": true, "sub/city.pmtiles": true, "./city": true, "../city": true,
		"/tmp/city": true, "b3:00/city.pmtiles": false, "maps.zone/city.pmtiles": false, "maps.zone": false,
		"b3:00": false, "city": false,
	} {
		if got := MeantAsPackFile(what); got != want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// TestFileBelowALink: a file is below edge.dir by whichever path both are reached.
func TestFileBelowALink(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	real, link := filepath.Join(base, "real"), filepath.Join(base, "link")
	if err := os.MkdirAll(filepath.Join(real, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(real, "sub", "a.pmtiles"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Skip(err)
	}
	for _, dirs := range [][2]string{{real, real}, {real, link}, {link, real}, {link, link}} {
		got, ok := PackBelow(dirs[0], filepath.Join(dirs[1], "sub", "a.pmtiles"))
		if !ok || got != "sub/a.pmtiles" {
			t.Errorf("%v: %q, %v", dirs, got, ok)
		}
	}
	if got, ok := PackBelow(filepath.Join(real, "sub"), filepath.Join(base, "other")); ok {
		t.Errorf("outside: %q", got)
	}
}
