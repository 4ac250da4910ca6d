package conf

import "testing"

func TestCheckpointStores(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		ok   bool
	}{
		"a folder":          {[]string{"--checkpoints-store", "/mnt/ckpt"}, true},
		"a bucket":          {[]string{"--checkpoints-store", "s3://bucket/a/b", "--checkpoints-credentials-file", "conf.go", "--checkpoints-endpoint", "https://s3.example:9000"}, true},
		"a relative folder": {[]string{"--checkpoints-store", "ckpt"}, false},
		"no credentials":    {[]string{"--checkpoints-store", "s3://bucket/a"}, false},
		"missing file":      {[]string{"--checkpoints-store", "s3://bucket/a", "--checkpoints-credentials-file", "none"}, false},
		"a password":        {[]string{"--checkpoints-store", "s3://id:secret@bucket/a", "--checkpoints-credentials-file", "conf.go"}, false},
		"no bucket":         {[]string{"--checkpoints-store", "s3:///a", "--checkpoints-credentials-file", "conf.go"}, false},
		"another scheme":    {[]string{"--checkpoints-store", "ftp://bucket/a"}, false},
		"a bad endpoint":    {[]string{"--checkpoints-endpoint", "s3.example"}, false},
		"a rate below zero": {[]string{"--checkpoints-rate", "-1"}, false},
	} {
		if _, err := load(t, "", nil, c.args...); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStores(t *testing.T) {
	bucket := []string{"--bytes-store", "s3://bucket/a", "--bytes-credentials-file", "conf.go", "--bytes-endpoint", "https://s3.example:9000"}
	apart := append(bucket, "--etcd-endpoints", "unix:///run/etcd.sock", "--servers-key-file", "conf.go", "--history-url", "postgres://fermi@db/fermi?sslmode=verify-full")
	for name, c := range map[string]struct {
		args []string
		ok   bool
	}{
		"a folder":                    {[]string{"--bytes-store", "/mnt/fermi"}, true},
		"a bucket":                    {bucket, true},
		"several servers":             {apart, true},
		"several, a folder":           {append(apart[len(bucket):len(apart):len(apart)], "--bytes-store", "/mnt/fermi"), true},
		"a relative folder":           {[]string{"--bytes-store", "blobs"}, false},
		"no credentials":              {bucket[:2], false},
		"several, without a key":      {append(apart[:len(apart):len(apart)], "--servers-key-file", ""), false},
		"several, a key that is gone": {append(apart[:len(apart):len(apart)], "--servers-key-file", "none"), false},
		"several, without PostgreSQL": {append(apart[:len(apart):len(apart)], "--history-url", ""), false},
		"several, a shared folder":    {append(apart[:len(apart):len(apart)], "--shared", "/srv/fermi"), false},
		"several, nodes of the demo":  {append(apart[:len(apart):len(apart)], "--demo"), false},
	} {
		if _, err := load(t, "", nil, c.args...); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
