package conf

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// maxURL bounds history.url, in bytes.
const maxURL = 4096

// past checks where history is kept. The URL is not repeated in what it says: there may be a
// password in it.
func (s *Settings) past() []fault.Field {
	var out []fault.Field
	add := func(key, en, zh string, args ...any) {
		out = append(out, fault.Field{Path: key, Message: fault.T(en, zh, args...)})
	}
	switch {
	case s.HistoryPasswordFile == "":
	case s.HistoryURL == "":
		add("history.password.file", "A password file needs history.url.", "设置密码文件时必须给出 history.url。")
	case !exists(s.HistoryPasswordFile):
		add("history.password.file", "There is no file %s.", "文件 %s 不存在。", strconv.Quote(s.HistoryPasswordFile))
	}
	if s.HistoryURL == "" {
		return out
	}
	hosts, sslmode, password, ok := takeApart(s.HistoryURL)
	if !ok {
		add("history.url", "It is not a URL such as postgres://fermi@db.example:5432/fermi?sslmode=verify-full.", "不是合法的 URL，例如 postgres://fermi@db.example:5432/fermi?sslmode=verify-full。")
		return out
	}
	if password {
		add("history.url", "There is a password in the URL, where others can see it; put it into a file and name that by history.password.file or PGPASSFILE.", "URL 中含有密码，可能被他人看到；请将其写入文件，并通过 history.password.file 或 PGPASSFILE 指定。")
	}
	for _, host := range hosts {
		if s.Insecure || sslmode == "verify-full" || strings.HasPrefix(host, "/") || Loopback(host) {
			continue
		}
		why := fault.T("history would travel unencrypted", "历史数据将以明文传输")
		if slices.Contains([]string{"require", "verify-ca"}, sslmode) {
			why = fault.T("with sslmode=%[1]s anybody between could pose as it", "sslmode=%[1]s 无法防止中间人冒充", sslmode)
		}
		add("history.url", "%[1]s is another machine, and %[2]s; add sslmode=verify-full (and sslrootcert=FILE for an authority of your own), or say insecure.",
			"%[1]s 是另一台机器，%[3]s；请使用 sslmode=verify-full（自建 CA 另加 sslrootcert=FILE），或显式设置 insecure。", strconv.Quote(host), why.EN, why.ZH)
	}
	return out
}

// takeApart is what matters of a PostgreSQL URL: a host, or several with commas between them, must
// be named.
func takeApart(raw string) (hosts []string, sslmode string, password, ok bool) {
	u, err := url.Parse(raw)
	if err != nil || len(raw) > maxURL || u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Opaque != "" || u.Fragment != "" {
		return nil, "", false, false
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, "", false, false
	}
	for _, values := range q {
		if len(values) != 1 { // which one counts is anybody's guess
			return nil, "", false, false
		}
	}
	_, password = u.User.Password()
	password = password || q.Has("password") || q.Has("sslpassword")
	host := u.Hostname()
	if q.Has("host") {
		host = q.Get("host")
	}
	hosts = strings.Split(host, ",")
	return hosts, q.Get("sslmode"), password, !slices.Contains(hosts, "") && !q.Has("service") && !strings.ContainsRune(raw, 0)
}
