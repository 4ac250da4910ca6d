package sim

import (
	"html/template"
	"io"

	"github.com/fermi-cluster/fermi/internal/fault"
)

var page = template.Must(template.New("report").Parse(`<!doctype html>
<html lang="{{.Lang}}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>fermi sim · {{.Title}}</title><style>
:root{color-scheme:light dark;--ink:#1a1b1e;--soft:#868e96;--paper:#fff}
@media (prefers-color-scheme:dark){:root{--ink:#e9ecef;--paper:#1a1b1e}}
body{font:15px/1.5 system-ui,"Noto Sans CJK SC",sans-serif;color:var(--ink);background:var(--paper);max-width:1340px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem}table{border-collapse:collapse;margin:1rem 0}th{text-align:left;font-weight:500;padding:.2rem 1.5rem .2rem 0;color:var(--soft)}
td{padding:.2rem 1.5rem .2rem 0}main{display:flex;flex-wrap:wrap;gap:1rem}figure{margin:0;flex:1 1 30rem}figcaption{font-weight:600}
svg{width:100%;height:auto}svg text{font-size:11px;fill:var(--soft)}.grid{stroke:var(--soft);stroke-opacity:.25}.line{fill:none;stroke-width:1.6}
</style></head><body><h1>fermi sim · {{.Title}}</h1>

<table>{{range .Table}}<tr><th scope="row">{{.Name}}</th>{{range .Values}}<td>{{.}}</td>{{end}}</tr>{{end}}</table>
<main>{{range .Plots}}{{.}}{{end}}</main></body></html>
`))

type pageRow struct {
	Name   string
	Values []string
}

var colours = []string{"#228be6", "#f76707", "#2f9e44", "#ae3ec9"}

// WriteHTML writes one self-contained page that shows reports beside each other: the first is what
// is, the others what would be.
func WriteHTML(w io.Writer, lang string, names []string, reports ...*Report) error {
	label := func(en, zh string) string { return fault.Text{EN: en, ZH: zh}.In(lang) }
	var rows []pageRow
	for i, r := range reports {
		for k, row := range r.rows(lang) {
			if i == 0 {
				rows = append(rows, pageRow{Name: row[0]})
			}
			if k < len(rows) {
				rows[k].Values = append(rows[k].Values, row[1])
			}
		}
	}
	head := pageRow{Values: names}
	used, waiting, waits, jct := []line{}, []line{}, []line{}, []line{}
	for i, r := range reports {
		colour := colours[i%len(colours)]
		x := make([]float64, len(r.Used))
		share := make([]float64, len(r.Used))
		for k := range x {
			x[k], share[k] = float64(k)*r.Step.Hours(), 100*r.Used[k]/max(r.Devices, 1)
		}
		used = append(used, line{names[i], colour, x, share})
		waiting = append(waiting, line{names[i], colour, x, r.Waiting})
		var ws, js []float64
		for _, l := range r.Lives {
			if l.End >= 0 {
				ws, js = append(ws, max(l.Wait.Minutes(), 0.1)), append(js, max((l.End-l.Submit).Minutes(), 0.1))
			}
		}
		wx, wy := cdf(ws)
		jx, jy := cdf(js)
		waits, jct = append(waits, line{names[i], colour, wx, wy}), append(jct, line{names[i], colour, jx, jy})
	}
	hours, minutes, percent := label("hours", "小时"), label("minutes", "分钟"), label("% of jobs", "作业占比 %")
	return page.Execute(w, map[string]any{
		"Lang": lang, "Title": reports[0].Trace, "Table": append([]pageRow{head}, rows...),
		"Plots": []template.HTML{
			plot(label("Devices in use", "设备使用率"), hours, "%", false, used...),
			plot(label("Jobs waiting", "等待作业数"), hours, label("jobs", "作业"), false, waiting...),
			plot(label("Wait", "等待时间分布"), minutes, percent, true, waits...),
			plot(label("Completion time", "完成时间分布"), minutes, percent, true, jct...),
		},
	})
}
