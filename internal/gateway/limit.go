package gateway

import (
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// limits keep each key within its requests and tokens a minute, at this gateway. Safe for concurrent use.
type limits struct {
	mu   sync.Mutex
	keys map[string]*bucket // by token's name
}

// month is what a key used of its budgets: what the leader said last, and what came since then here.
type month struct {
	of               time.Time
	requests, tokens int64
}

// bucket fills with time, up to a minute's worth.
type bucket struct {
	at               time.Time
	requests, tokens float64
	month            month
}

// mostKeys bounds what is remembered; a key that is forgotten has a full bucket again.
const mostKeys = 100_000

// overLimit is the answer to a key that asks too much.
func overLimit(what, zh string, limit int, wait time.Duration) *fault.Error {
	e := fault.New(fault.TooMany, "KeyLimit", fault.T("The key has used its %d %s a minute.", "该密钥已用完每分钟 %[1]d 个%[3]s的额度。", limit, what, zh)).
		WithHint(fault.T("Ask again later; its limits are those of the token.", "请稍后重试；额度由令牌的 limits 设定。"))
	e.RetryAfter = max(wait, time.Second)
	return e
}

// take takes one request of a key; nil: it has one. What it took in tokens is known later.
func (l *limits) take(key string, limit *api.KeyLimits, now time.Time) *fault.Error {
	if limit == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.of(key, limit, now)
	if over := b.month.beyond(limit, now); over != nil {
		return over
	}
	if limit.TokensPerMinute > 0 && b.tokens <= 0 {
		return overLimit("tokens", "词元", limit.TokensPerMinute, time.Duration((1-b.tokens)/float64(limit.TokensPerMinute)*float64(time.Minute)))
	}
	if limit.RequestsPerMinute > 0 {
		if b.requests < 1 {
			return overLimit("requests", "请求", limit.RequestsPerMinute, time.Duration((1-b.requests)/float64(limit.RequestsPerMinute)*float64(time.Minute)))
		}
		b.requests--
	}
	b.month.requests++
	return nil
}

// beyond is the answer to a key that has used its budget; nil: it has some left.
func (m *month) beyond(limit *api.KeyLimits, now time.Time) *fault.Error {
	begun := serving.MonthOf(now)
	if !m.of.Equal(begun) {
		*m = month{of: begun}
	}
	what, zh, most := "requests", "请求", limit.RequestsPerMonth
	if over := limit.TokensPerMonth; over > 0 && m.tokens >= over {
		what, zh, most = "tokens", "词元", over
	} else if most == 0 || m.requests < most {
		return nil
	}
	next := begun.AddDate(0, 1, 0)
	e := fault.New(fault.TooMany, "KeyBudget", fault.T("The key has used its budget of %d %s for this month; the next one begins on %s.", "该密钥本月的%[4]s预算（%[1]d）已用完，%[3]s 起重新计算。", most, what, next.Format(time.DateOnly), zh)).
		WithHint(fault.T("Who made the key can give it more: fermi token create NAME --scope inference --tokens-per-month N.", "可由创建者提高额度：fermi token create NAME --scope inference --tokens-per-month N。"))
	e.RetryAfter = next.Sub(now)
	return e
}

// spentBy hears what all gateways together carried for keys with budgets.
func (l *limits) spentBy(list []serving.KeySpent, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range list {
		if b := l.keys[s.Key]; b != nil {
			b.month = month{serving.MonthOf(now), s.Requests, s.Tokens}
		}
	}
}

// spend counts the tokens of an answer.
func (l *limits) spend(key string, limit *api.KeyLimits, tokens int64, now time.Time) {
	if limit == nil || limit.TokensPerMinute == 0 && limit.TokensPerMonth == 0 || tokens == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.of(key, limit, now)
	b.tokens -= float64(tokens)
	b.month.tokens += tokens
}

// of is a key's bucket as it is now. mu held.
func (l *limits) of(key string, limit *api.KeyLimits, now time.Time) *bucket {
	b := l.keys[key]
	if b == nil {
		if l.keys == nil || len(l.keys) >= mostKeys {
			l.keys = map[string]*bucket{}
		}
		b = &bucket{at: now, requests: float64(limit.RequestsPerMinute), tokens: float64(limit.TokensPerMinute)}
		l.keys[key] = b
	}
	if passed := now.Sub(b.at).Minutes(); passed > 0 {
		b.requests = min(b.requests+passed*float64(limit.RequestsPerMinute), float64(limit.RequestsPerMinute))
		b.tokens = min(b.tokens+passed*float64(limit.TokensPerMinute), float64(limit.TokensPerMinute))
	}
	b.at = now
	return b
}
