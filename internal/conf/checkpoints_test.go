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
