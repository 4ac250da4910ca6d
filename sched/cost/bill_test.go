package cost

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// slowRate is what a part costs an hour, in billionths, by the words of the price book and nothing
// else: the unit's price at that time of day, to a millionth, times the amount.
func slowRate(s api.ZoneSpec, p Part, spot bool, at time.Time) int64 {
	minutes, _ := api.ParseUTCOffset(s.UTCOffset)
	local := at.UTC().Add(time.Duration(minutes) * time.Minute)
	minute := local.Hour()*60 + local.Minute()
	factor := 1.0
	for _, w := range s.Price.Windows {
		from, _ := api.ParseClock(w.From)
		to, _ := api.ParseClock(w.To)
		if from <= to && minute >= from && minute < to || from > to && (minute >= from || minute < to) {
			factor = w.Factor
		}
	}
	if spot && s.Price.SpotFactor > 0 {
		factor *= s.Price.SpotFactor
	}
	unit := func(price float64) int64 { return int64(price*factor*1e6 + 0.5) }
	return p.Thousandths*unit(s.Price.Device(p.DeviceType)) + int64(p.CPU)*unit(s.Price.Core()) + int64(p.Memory>>30)*1000*unit(s.Price.MemoryGBHour)
}

// The cost of a stay over books that changed while it ran is the sum of its seconds, each at the
// price of the book that was in force then; and the cost of the whole is that of any two pieces.
func TestBooksBySecond(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		begin := time.Date(2026, 3, 1, rapid.IntRange(0, 23).Draw(t, "hour"), 0, 0, 0, time.UTC)
		second := func(what string) time.Time {
			return begin.Add(time.Duration(rapid.IntRange(0, 4*3600).Draw(t, what)) * time.Second)
		}
		books := []Book{{Since: begin.Add(-time.Hour), Spec: anyZone(t, "z").Spec}}
		for range rapid.IntRange(0, 4).Draw(t, "changes") {
			books = append(books, Book{Since: second("since"), Spec: anyZone(t, "z").Spec})
		}
		part := anyPart(t, "z")
		part.Memory = part.Memory >> 30 << 30 // whole GiB: parts of one are rounded to a billionth an hour
		spot := rapid.Bool().Draw(t, "spot")
		from, end, middle := second("from"), second("end"), second("middle")
		want := int64(0) // billionths an hour × seconds: below 2e18
		for at := from; at.Before(end); at = at.Add(time.Second) {
			now := books[0]
			for _, b := range books[1:] { // of one time the first given
				if !b.Since.After(at) && b.Since.After(now.Since) {
					now = b
				}
			}
			want += slowRate(now.Spec, part, spot, at)
		}
		var whole, pieces Bill
		all := BooksOf(books)
		all.Add(&whole, part, spot, from, end)
		if got := exact(whole); got.Cmp(big.NewInt(want)) != 0 {
			t.Fatalf("%s, by the second %d", got, want)
		}
		if middle.After(from) && middle.Before(end) {
			all.Add(&pieces, part, spot, from, middle)
			all.Add(&pieces, part, spot, middle, end)
			if pieces.KWh.Cmp(whole.KWh) != 0 || pieces.Grams.Cmp(whole.Grams) != 0 || exact(pieces).Cmp(big.NewInt(want)) != 0 {
				t.Fatal("two pieces are not the whole")
			}
		}
	})
}

// exact is the money of a bill in all its currencies, in billionths an hour × seconds.
func exact(b Bill) *big.Int {
	sum := new(big.Int)
	for _, s := range b.Money {
		sum.Add(sum, s.int())
	}
	return sum.Div(sum, big.NewInt(int64(time.Second)))
}

// Energy over a change: half an hour at each, with another cooling, and carbon known only then.
func TestBooksEnergy(t *testing.T) {
	first, second := api.ZoneSpec{PUE: 1}, api.ZoneSpec{PUE: 2, Carbon: &api.Carbon{GramsPerKWh: ptr(500.0)}, Price: api.Price{Currency: "USD", DeviceHour: ptr(1.0)}}
	books := BooksOf([]Book{{Since: noon.Add(30 * time.Minute), Spec: second}, {Spec: first}})
	var b Bill
	books.Add(&b, Part{DeviceType: "A100", Thousandths: 2000}, false, noon, noon.Add(time.Hour))
	if b.KWh.Nano().Float() != 1.2 || b.Grams.Nano().Float() != 400 || !b.Dark || b.Devices.Nano().Float() != 2 {
		t.Errorf("kWh %v, grams %v, %+v", b.KWh.Nano().Float(), b.Grams.Nano().Float(), b)
	}
	want := []api.PriceTotal{{Currency: "CNY", Total: 8.5}, {Currency: "USD", Total: 1}}
	if got := b.Totals(); len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v", got)
	}
	var lit Bill
	books.Add(&lit, Part{DeviceType: "A100", Thousandths: 2000}, false, noon.Add(time.Hour), noon.Add(2*time.Hour))
	if lit.Dark || Dearer(&b, &lit) >= 0 || Dearer(&lit, &lit) != 0 {
		t.Errorf("%+v", lit)
	}
	sum := Bill{Replicas: 1}
	sum.Plus(&b)
	sum.Plus(&lit)
	if sum.Grams.Nano().Float() != 1200 || !sum.Dark || sum.Totals()[1].Total != 3 {
		t.Errorf("%+v", sum)
	}
	if empty := BooksOf(nil); empty.zones[0].Currency != api.DefaultCurrency {
		t.Error("no book is no default")
	}
}
