//! What the name of a member says of a list, where the configuration does not read it: one table of names for all that is looked for
//! beside the records.

use std::collections::HashMap;
use std::sync::LazyLock;

/// What members of some names say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// Where the next page is.
    Next,
    /// A cursor, which upstreams also have for the present page.
    Token,
    /// A flag: there are more pages.
    More,
    /// A flag: the response is cut, so that there is more.
    Cut,
    /// What of the request the response does not answer.
    Rest,
    /// The number of records that the list lacks.
    Left,
    /// What could not be asked for its records: places, or shards with the number of those that failed.
    Unreached,
    /// A flag: this is the last page.
    Done,
    /// One of those which says that there is more where it is false: a list can be complete or not in other ways.
    NotDone,
    /// The number of all pages, which says that there are more where the configuration reads one.
    Pages,
    /// The number of all records.
    Total,
    /// An error.
    Error,
    /// The number of an error, wherever it is.
    Code,
    /// A flag: the list is not whole.
    NotWhole,
    /// A flag: the list is whole, where other responses of the call say that too.
    Whole,
    /// A flag: the request succeeded.
    Succeeded,
    /// A word for the success of the request.
    State,
    /// A number for the success of the request.
    StateCode,
    /// An object with what the response says of its request.
    Envelope,
    /// What an error is, as a member of it.
    Meaning,
    /// What was requested, once more.
    Echo,
    /// What the credential has or spent.
    Account,
}

/// The names, in lower case without marks between words.
const NAMES: [(Sign, &str); 22] = [
    (
        Sign::Next,
        "lastevaluatedkey next nextbatch nextcontinuationtoken nextcursor nexthref nextid nextindex nextkey nextlink nextmarker nextmaxid \
        nextoffset nextpage nextpagecursor nextpageid nextpagelink nextpagenumber nextpagetoken nextpageuri nextpageurl nextposition \
        nextrecordsurl nextresults nextskiptoken nextstart nextstartindex nexttoken nexturi nexturl continuationtoken odatanextlink",
    ),
    (
        Sign::Token,
        "after aftercursor bookmark continuation continue cursor endcursor marker offset pagetoken scrollid",
    ),
    (
        Sign::More,
        "exceededtransferlimit hasmore hasmoredata hasmoreitems hasmorepages hasmorerecords hasmoreresults hasmorerows hasnext \
        hasnextpage ismore ismoreavailable more moreavailable moredataavailable moreitemsavailable morepages moreresults \
        moreresultsavailable",
    ),
    (
        Sign::Cut,
        "capped hastruncatedresults istruncated limitreached listtruncated maxresultsreached overflow responsetruncated \
        resultlimitreached resultstruncated resulttruncated truncated truncatedresults",
    ),
    (
        Sign::Rest,
        "unprocessed unprocessedentries unprocessedids unprocesseditems unprocessedkeys",
    ),
    (Sign::Left, "omittedcount remainingcount"),
    (
        Sign::Unreached,
        "missinglocations missingregions missingzones shards unreachable unreachablelocations unreachableregions unreachablezones",
    ),
    (
        Sign::Done,
        "complete done endofdata endoflist endofrecords endofresults endofstream finished isend isfinal islast islastpage last lastpage \
        nomore nomorepages nomoreresults",
    ),
    (
        Sign::NotDone,
        "done endofdata endoflist endofrecords endofresults endofstream iscomplete isend isfinal islast islastpage last lastpage \
        nomore nomorepages nomoreresults",
    ),
    (
        Sign::Pages,
        "lastpage nbpages numpages pagecount pages pagestotal totalpages",
    ),
    (
        Sign::Total,
        "count found nbhits numberofrecords numberofresults numbermatched numfound odatacount recordsfiltered recordstotal rowcount \
        total totalcount totaldocs totalelements totalentries totalhits totalitems totalmatches totalobjects totalrecords \
        totalresults totalrows totalsize",
    ),
    (
        Sign::Error,
        "err errcode errmsg errno error errorcode errordesc errordescription errordetail errordetails errorinfo errorlist errormessage \
        errormessages errormsg errorreason errorresponse errors errorsummary errortext errortype exception exceptions failure \
        failurereason failures fault faults faultstring odataerror partialerrors partialfailure partialfailureerror partialfailures \
        shardfailures",
    ),
    (Sign::Code, "errcode errno errorcode"),
    (
        Sign::NotWhole,
        "dataincomplete degraded haserror haserrors hasincompleteresults hasmissingdata incomplete incompletedata incompleteresult \
        incompleteresults incompletesearch isdegraded isincomplete ispartial ispartialdata ispartialresult ispartialresults isratelimited istimedout \
        limitexceeded partial partialcontent partialdata partialresponse partialresult partialresults partialsuccess quotaexceeded \
        ratelimited ratelimitexceeded resultsincomplete resultspartial terminatedearly throttled timedout",
    ),
    (
        Sign::Whole,
        "complete datacomplete executionfinished iscomplete isdone isexecutionfinished isfinished jobdone jobfinished resultcomplete \
        resultscomplete searchcomplete whole",
    ),
    (
        Sign::Succeeded,
        "isok issuccess jobcomplete ok response succeeded success successful",
    ),
    (
        Sign::State,
        "ack executionstate executionstatus jobstate jobstatus querystate querystatus result responsestatus stat state status",
    ),
    (
        Sign::StateCode,
        "cod code httpcode httpstatus ok rc responsecode responsestatus resultcode ret retcode returncode status statuscode success",
    ),
    (
        Sign::Envelope,
        "header info job meta metadata response responseheader responsemetadata rsp stats",
    ),
    (
        Sign::Meaning,
        "code description detail details information message messages msg note notice reason remark text title type warning",
    ),
    (
        Sign::Echo,
        "filter filters input parameters params query request",
    ),
    (
        Sign::Account,
        "account billing credits limits plan quota quotas ratelimit ratelimits usage",
    ),
];

/// The signs of each name, one bit a sign.
static SIGNS: LazyLock<HashMap<&str, u32>> = LazyLock::new(|| {
    let mut signs = HashMap::new();
    for (sign, names) in NAMES {
        for name in names.split(' ') {
            *signs.entry(name).or_default() |= 1 << sign as u32;
        }
    }
    signs
});

/// The name of a member, and what it says.
pub struct MemberName {
    /// In lower case, without marks between words.
    pub plain: String,
    signs: u32,
}

impl MemberName {
    pub fn of(name: &str) -> Self {
        // Without its namespace: `hydra:next`.
        let (_, local) = name.rsplit_once(':').unwrap_or(("", name));
        let letters = local.chars().filter(char::is_ascii_alphanumeric);
        let plain: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
        Self {
            signs: SIGNS.get(plain.as_str()).copied().unwrap_or_default(),
            plain,
        }
    }

    pub const fn says(&self, sign: Sign) -> bool {
        self.signs & (1 << sign as u32) != 0
    }

    /// Whether members of this object say something of the request or of its pages, and of no thing that is listed.
    pub fn is_envelope(&self) -> bool {
        let plain = &self.plain;
        self.says(Sign::Envelope) || plain.contains("pag") || plain.contains("cursor")
    }

    /// Whether it is one that numbers of records have.
    pub fn is_total(&self) -> bool {
        let plain = self.plain.as_str();
        let counts_other = ["err", "fail", "retr", "warn"];
        let counts_other = counts_other.iter().any(|other| plain.starts_with(other));
        let is_count = plain.ends_with("count") || plain.starts_with("total");
        let is_usual = matches!(plain, "numresults" | "resultsizeestimate" | "hits");
        !counts_other && (self.says(Sign::Total) || is_count || is_usual)
    }
}
