package site

// Truth is what a crawl of the whole site from its start page must find, however it is done. It is worked out from
// the plan, not by crawling.
type Truth struct {
	Pages           int           `json:"pages"`
	Files           int           `json:"files"`
	Fetched         int           `json:"fetched"`
	Bytes           int64         `json:"bytes"`
	StatusClasses   StatusClasses `json:"statusClasses"`
	Skipped         Skipped       `json:"skipped"`
	MaxDepthReached int           `json:"maxDepthReached"`
	BrokenTotal     int           `json:"brokenTotal"`
	Broken          []BrokenTruth `json:"broken"`
}

// StatusClasses counts URLs by what they answer.
type StatusClasses struct {
	S2xx int `json:"2xx"`
	S3xx int `json:"3xx"`
	S4xx int `json:"4xx"`
	S5xx int `json:"5xx"`
}

// Skipped counts the URLs that a crawl must find but not fetch.
type Skipped struct {
	Robots  int `json:"robots"`
	Offsite int `json:"offsite"`
}

// BrokenTruth is a broken URL and how many pages link to it.
type BrokenTruth struct {
	Path      string `json:"path"`
	Status    int    `json:"status,omitempty"`
	Error     string `json:"error,omitempty"`
	Referrers int    `json:"referrers"`
}

// Truth works out what is to be found.
func (p Plan) Truth() Truth {
	t := Truth{Pages: p.Pages, BrokenTotal: p.Broken, Broken: []BrokenTruth{}}
	elsewhere := map[string]bool{}
	for i := range p.Pages {
		t.Bytes += int64(len(p.render(i)))
		if _, ok := p.detour(i); ok {
			t.StatusClasses.S3xx++
		}
		if hasWayOut(i) {
			t.StatusClasses.S3xx++
			elsewhere[external+"/out"] = true
		}
		if hasFile(i) {
			t.Files++
			t.Bytes += int64(fileSize(i))
		}
		if hasPrivate(i) {
			t.Skipped.Robots++
		}
		if hasExternal(i) {
			elsewhere[externalURL(i)] = true
		}
	}
	t.Skipped.Offsite = len(elsewhere)
	t.StatusClasses.S2xx = t.Pages + t.Files

	for j := range p.Broken {
		kind := brokenKind(j)
		t.Broken = append(t.Broken, BrokenTruth{
			Path: brokenPath(j), Status: kind.status, Error: kind.failure, Referrers: holdersOf(j),
		})
		switch kind {
		case missing:
			t.StatusClasses.S4xx++
		case failing:
			t.StatusClasses.S5xx++
		case moved:
			t.StatusClasses.S3xx++
			t.StatusClasses.S4xx++
		case looping:
			t.StatusClasses.S3xx += 2
		}
	}
	c := t.StatusClasses
	t.Fetched = c.S2xx + c.S3xx + c.S4xx + c.S5xx
	t.MaxDepthReached = p.maxDepth()
	return t
}

// maxDepth is the link distance of the URL that is farthest from the start: a page, or something that a page holds.
func (p Plan) maxDepth() int {
	depth := map[int]int{0: 0}
	farthest := 0
	for queue := []int{0}; len(queue) > 0; queue = queue[1:] {
		i := queue[0]
		below := depth[i] + 1
		reach := func(page int) {
			if _, known := depth[page]; !known {
				depth[page] = below
				farthest = max(farthest, below)
				queue = append(queue, page)
			}
		}
		for child, end := p.childrenOf(i); child < end; child++ {
			reach(child)
		}
		reach(p.after(i))
		if to, ok := p.detour(i); ok {
			reach(to)
		}
		if p.holdsMore(i) {
			farthest = max(farthest, below)
		}
	}
	return farthest
}

// holdsMore says whether page i links to anything that is fetched but is not one of the pages.
func (p Plan) holdsMore(i int) bool {
	_, detour := p.detour(i)
	if detour || hasWayOut(i) || hasFile(i) {
		return true
	}
	return len(p.brokenOn(i)) > 0
}
