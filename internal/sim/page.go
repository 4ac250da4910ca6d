package sim

import (
	"html/template"
	"io"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// page is read when a report is first written: launchers never do.
var page = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("report").Parse(`<!doctype html>
<html lang="{{.Lang}}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>fermi sim · {{.Title}}</title><style>
:root{color-scheme:light dark;--ink:#1a1b1e;--soft:#868e96;--paper:#fff}
@media (prefers-color-scheme:dark){:root{--ink:#e9ecef;--paper:#1a1b1e}}
body{font:15px/1.5 system-ui,"Noto Sans CJK SC",sans-serif;color:var(--ink);background:var(--paper);max-width:1340px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem}table{border-collapse:collapse;margin:1rem 0}th{text-align:left;font-weight:500;padding:.2rem 1.5rem .2rem 0;color:var(--soft)}
td{padding:.2rem 1.5rem .2rem 0}main{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(30rem,100%),1fr));gap:1rem}figure{margin:0}figcaption{font-weight:600}figcaption span{font-weight:400;margin-left:1rem}
h2{font-size:1.1rem}svg{width:100%;height:auto}svg text{font-size:11px;fill:var(--soft)}.grid{stroke:var(--soft);stroke-opacity:.25}.line{fill:none;stroke-width:1.6}
</style></head><body><h1>fermi sim · {{.Title}}</h1>

<table><thead><tr>{{range .Heads}}<th scope="col"{{with .Colour}} style="color:{{.}}"{{end}}>{{.Name}}</th>{{end}}</tr></thead>
<tbody>{{range .Table}}<tr>{{range $i, $v := .}}{{if $i}}<td>{{$v}}</td>{{else}}<th scope="row">{{$v}}</th>{{end}}{{end}}</tr>{{end}}</tbody></table>
<main>{{range .Plots}}{{.}}{{end}}</main>
{{if .Starts}}<h2>{{.StartsTitle}}</h2><table><thead><tr>{{range .StartHeads}}<th scope="col">{{.}}</th>{{end}}</tr></thead>
<tbody>{{range .Starts}}<tr>{{range .}}<td>{{.}}</td>{{end}}</tr>{{end}}</tbody></table>{{end}}{{with .Left}}<p>{{.}}</p>{{end}}
</body></html>
`))
})

var colours = []string{"#228be6", "#f76707", "#2f9e44", "#ae3ec9"}

// pageStarts is how many jobs the page's list of starts has.
const pageStarts = 200

type head struct{ Name, Colour string }

// WriteHTML writes one self-contained page that shows reports beside each other: the first is what
// is, the others what would be. withStarts adds the list of who starts when.
func WriteHTML(w io.Writer, lang string, withStarts bool, variants ...Variant) error {
	label := func(en, zh string, args ...any) string { return said(lang, en, zh, args...) }
	names, rows := Table(lang, variants...)
	heads := []head{{names[0], ""}}
	var used, waiting, fair, waits, big, jct []line
	for i, v := range variants {
		colour := colours[i%len(colours)]
		heads = append(heads, head{v.Name, colour})
		x, share := make([]float64, len(v.Used)), make([]float64, len(v.Used))
		for k := range x {
			x[k], share[k] = float64(k)*v.Step.Hours(), 100*v.Used[k]/max(v.Devices, 1)
		}
		used = append(used, line{v.Name, colour, x, share})
		waiting = append(waiting, line{v.Name, colour, x, v.Waiting})
		fair = append(fair, line{v.Name, colour, x, v.Fair})
		spread := func(of func(Life) (time.Duration, bool)) line {
			var all []float64
			for _, l := range v.Lives {
				if d, ok := of(l); ok && l.End != never {
					all = append(all, max(d.Minutes(), 0.1))
				}
			}
			x, y := cdf(all)
			return line{v.Name, colour, x, y}
		}
		waits = append(waits, spread(func(l Life) (time.Duration, bool) { return l.Wait, true }))
		big = append(big, spread(func(l Life) (time.Duration, bool) { return l.Wait, l.Devices >= 8 }))
		jct = append(jct, spread(func(l Life) (time.Duration, bool) { return l.End - l.Submit, true }))
	}
	hours, minutes, percent := label("hours", "小时"), label("minutes", "分钟"), fault.Text{EN: "% of jobs", ZH: "作业占比 %"}.In(lang)
	data := map[string]any{
		"Lang": lang, "Title": variants[0].Trace, "Heads": heads, "Table": rows,
		"Plots": []template.HTML{
			plot(label("Devices in use", "设备使用率"), hours, "%", false, used...),
			plot(label("Jobs waiting", "等待作业数"), hours, label("jobs", "作业"), false, waiting...),
			plot(label("Wait", "等待时间分布"), minutes, percent, true, waits...),
			plot(label("Wait of ≥ 8 devices", "≥ 8 卡作业等待时间分布"), minutes, percent, true, big...),
			plot(label("Completion time", "完成时间分布"), minutes, percent, true, jct...),
			plot(label("Fairness of queues", "队列公平性"), hours, label("Jain's index", "Jain 指数"), false, fair...),
		},
	}
	if withStarts {
		data["StartHeads"], data["Starts"], data["Left"] = Starts(lang, pageStarts, variants...)
		data["StartsTitle"] = label("Who starts when", "启动时间")
	}
	return page().Execute(w, data)
}
