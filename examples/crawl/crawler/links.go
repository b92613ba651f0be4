package crawler

import (
	"errors"
	"io"
	"net/url"

	"github.com/mcptask/mcptask/examples/crawl/urlnorm"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"
)

// link is a distinct reference from a page.
type link struct {
	url     string
	offsite bool
}

// pageLinks returns the distinct links of an HTML page in a[href] and area[href], and how many of them are not URLs.
// rel="nofollow" is not looked at: it tells search engines what to count, not crawlers what to fetch. Only a read
// error is returned: there is no HTML that cannot be read.
func pageLinks(body io.Reader, contentType string, page *url.URL) (links []link, invalid int, err error) {
	text, err := charset.NewReader(body, contentType)
	if errors.Is(err, io.EOF) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	base, hrefs, err := readHrefs(text)
	if err != nil {
		return nil, 0, err
	}

	from := page
	if base != nil {
		if u, err := urlnorm.Resolve(page, *base); err == nil {
			from = u
		}
	}
	seen := map[string]bool{}
	for _, href := range hrefs {
		key, offsite := href, false
		u, err := urlnorm.Resolve(from, href)
		if errors.Is(err, urlnorm.ErrNotWeb) {
			continue
		}
		if err == nil {
			key, offsite = u.String(), urlnorm.Site(u) != urlnorm.Site(page)
		}
		if seen[key] {
			continue
		}
		seen[key] = true
		if err != nil {
			invalid++
			continue
		}
		links = append(links, link{url: key, offsite: offsite})
	}
	return links, invalid, nil
}

// readHrefs collects the first base[href], which counts for the whole page wherever it stands, and all references.
func readHrefs(text io.Reader) (base *string, hrefs []string, err error) {
	tokens := html.NewTokenizer(text)
	for {
		switch tokens.Next() {
		case html.ErrorToken:
			if err := tokens.Err(); !errors.Is(err, io.EOF) {
				return nil, nil, err
			}
			return base, hrefs, nil
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := tokens.TagName()
			tag := atom.Lookup(name)
			if tag != atom.A && tag != atom.Area && tag != atom.Base {
				continue
			}
			for more {
				var key, value []byte
				key, value, more = tokens.TagAttr()
				if atom.Lookup(key) != atom.Href {
					continue
				}
				href := string(value)
				if tag != atom.Base {
					hrefs = append(hrefs, href)
				} else if base == nil {
					base = &href
				}
				break
			}
		}
	}
}
