// Command image writes an OCI image of a static binary, as a tar of an OCI layout with one platform for each
// binary. It needs no daemon. The same input gives the same bytes.
//
//	go run . -out image.tar -version v0.1.0 -epoch 1764426000 linux/amd64=allium-amd64 linux/arm64=allium-arm64
//
// A layer has the binary, the certificates of the authorities that Mozilla trusts, and the user nonroot (65532),
// who owns /data and /tmp.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the id of nonroot, as in distroless images. The binary runs as this user.
const user = 65532

func main() {
	out := flag.String("out", "", "file to write")
	version := flag.String("version", "", "version of the program")
	epoch := flag.Int64("epoch", 0, "time of every file, in Unix seconds")
	revision := flag.String("revision", "", "commit of the program")
	flag.Parse()
	img := image{version: *version, revision: *revision, time: time.Unix(*epoch, 0).UTC(), blobs: map[string][]byte{}}
	err := img.write(*out, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

type image struct {
	version, revision string
	time              time.Time
	blobs             map[string][]byte // by hex digest
}

// object is a JSON object. Its members are written in the order of their names.
type object map[string]any

// write writes the image of the binaries, each OS/ARCH=FILE, to a file.
func (m *image) write(out string, binaries []string) error {
	if out == "" || len(binaries) == 0 {
		return fmt.Errorf("name -out and at least one OS/ARCH=FILE")
	}
	var manifests []object
	for _, b := range binaries {
		platform, file, ok := strings.Cut(b, "=")
		system, arch, ok2 := strings.Cut(platform, "/")
		if !ok || !ok2 {
			return fmt.Errorf("%q is not OS/ARCH=FILE", b)
		}
		manifest, err := m.platform(system, arch, file)
		if err != nil {
			return err
		}
		manifests = append(manifests, manifest)
	}
	index := object{"schemaVersion": 2, "mediaType": indexType, "manifests": manifests, "annotations": m.labels()}
	all, err := m.blob(indexType, index)
	if err != nil {
		return err
	}
	// The name is for `docker load` and `ctr image import`, the tag for the rest.
	all["annotations"] = object{
		"io.containerd.image.name": "allium:" + m.version, "org.opencontainers.image.ref.name": m.version,
	}
	top, err := json.Marshal(object{"schemaVersion": 2, "mediaType": indexType, "manifests": []object{all}})
	if err != nil {
		return err
	}
	files := []file{
		{name: "oci-layout", mode: 0o644, data: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{name: "index.json", mode: 0o644, data: top},
		{name: "blobs/", mode: 0o755}, {name: "blobs/sha256/", mode: 0o755},
	}
	for _, digest := range slices.Sorted(maps.Keys(m.blobs)) {
		files = append(files, file{name: "blobs/sha256/" + digest, mode: 0o644, data: m.blobs[digest]})
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	if err := m.tar(f, files); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

const (
	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// platform adds the image of one binary, and returns its place in the index.
func (m *image) platform(system, arch, binary string) (object, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	if err := m.tar(&layer, rootFiles(program)); err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(layer.Bytes()); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	config, err := m.blob(configType, object{
		"architecture": arch, "os": system, "created": m.time.Format(time.RFC3339),
		"config": object{
			"User":       fmt.Sprintf("%d:%d", user, user),
			"Entrypoint": []string{"/usr/bin/allium"}, "Cmd": []string{"run"},
			"Env": []string{
				"PATH=/usr/bin", "ALLIUM_HOME=/data", "ALLIUM_GATEWAY__LISTEN=:8080", "HOME=/data",
			},
			"WorkingDir": "/data", "Volumes": object{"/data": object{}}, "StopSignal": "SIGTERM",
			"ExposedPorts": object{"4901/tcp": object{}, "4901/udp": object{}, "8080/tcp": object{}},
			"Labels":       m.labels(),
			// Docker's own: the OCI format has no health check, and keeps what it does not know.
			"Healthcheck": object{
				"Test": []string{"CMD", "/usr/bin/allium", "peers", "-q"}, "Interval": 30 * time.Second,
				"Timeout": 10 * time.Second, "StartPeriod": 30 * time.Second, "Retries": 3,
			},
		},
		"rootfs":  object{"type": "layers", "diff_ids": []string{"sha256:" + digestOf(layer.Bytes())}},
		"history": []object{{"created": m.time.Format(time.RFC3339), "created_by": "allium tools/image"}},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := m.blob(manifestType, object{
		"schemaVersion": 2, "mediaType": manifestType, "config": config,
		"layers": []object{m.add(layerType, packed.Bytes())}, "annotations": m.labels(),
	})
	if err != nil {
		return nil, err
	}
	manifest["platform"] = object{"os": system, "architecture": arch}
	return manifest, nil
}

func (m *image) labels() object {
	return object{
		"org.opencontainers.image.title": "allium", "org.opencontainers.image.version": m.version,
		"org.opencontainers.image.revision": m.revision, "org.opencontainers.image.licenses": "Apache-2.0 OR MIT",
		"org.opencontainers.image.created": m.time.Format(time.RFC3339),
	}
}

// blob adds a JSON value, and returns its descriptor.
func (m *image) blob(mediaType string, v object) (object, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return m.add(mediaType, data), nil
}

// add adds bytes, and returns their descriptor.
func (m *image) add(mediaType string, data []byte) object {
	digest := digestOf(data)
	m.blobs[digest] = data
	return object{"mediaType": mediaType, "digest": "sha256:" + digest, "size": len(data)}
}

func digestOf(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// file is an entry of a tar; a name that ends with a slash is a directory.
type file struct {
	name string
	mode int64
	uid  int
	data []byte
}

// rootFiles are the files of the image.
func rootFiles(program []byte) []file {
	var roots bytes.Buffer
	for r := range bundle.Roots() {
		_ = pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate}) // a Buffer takes all
	}
	return []file{
		{name: "data/", mode: 0o700, uid: user},
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, data: fmt.Appendf(nil, "root:x:0:\nnonroot:x:%d:\n", user)},
		{name: "etc/nsswitch.conf", mode: 0o644, data: []byte("hosts: files dns\n")},
		{name: "etc/passwd", mode: 0o644, data: fmt.Appendf(nil,
			"root:x:0:0:root:/:/sbin/nologin\nnonroot:x:%d:%d:nonroot:/data:/sbin/nologin\n", user, user)},
		{name: "etc/ssl/", mode: 0o755}, {name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: roots.Bytes()},
		{name: "tmp/", mode: 0o1777},
		{name: "usr/", mode: 0o755}, {name: "usr/bin/", mode: 0o755},
		{name: "usr/bin/allium", mode: 0o755, data: program},
	}
}

// tar writes files in their order.
func (m *image) tar(to io.Writer, files []file) error {
	w := tar.NewWriter(to)
	for _, f := range files {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Uid: f.uid, Gid: f.uid, Size: int64(len(f.data)),
			ModTime: m.time, Format: tar.FormatUSTAR,
		}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(f.data); err != nil {
			return err
		}
	}
	return w.Close()
}
