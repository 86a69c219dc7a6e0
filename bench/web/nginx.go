package web

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"allium/bench/measure"
)

// nginxPath finds nginx, which is not on every user's path.
func nginxPath() (string, error) {
	if name, err := exec.LookPath("nginx"); err == nil {
		return name, nil
	}
	return exec.LookPath("/usr/sbin/nginx")
}

// startNginx serves dir with one worker for each of wrk's threads.
func startNginx(ctx context.Context, binary, dir, tmp string) (*measure.Process, error) {
	addr, err := measure.FreeAddr(ctx)
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(tmp, "nginx.conf")
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;\n"
	}
	text := fmt.Sprintf(`%sdaemon off;
master_process on;
worker_processes %d;
pid %[3]s/nginx.pid;
error_log %[3]s/nginx.log;
events { worker_connections 1024; }
http {
	access_log off;
	sendfile on;
	tcp_nopush on;
	keepalive_requests 1000000000;
	open_file_cache max=100;
	server { listen %[4]s; root %[5]s; }
}
`, user, httpThreads, tmp, addr, dir)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return measure.Serve(ctx, addr, binary, "-p", tmp, "-c", conf)
}
