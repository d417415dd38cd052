//! AG News and SIB-200 as their authors publish them.

use dikast_core::Result;

use super::table::{Row, example};
use super::{Example, File, ReadOptions};

/// Topics of AG News by class index, from 1.
const AG_NEWS: [&str; 4] = ["World", "Sports", "Business", "Sci/Tech"];
/// Topics of SIB-200.
const SIB_200: [&str; 7] =
    ["science/technology", "travel", "politics", "sports", "health", "entertainment", "geography"];
/// Columns of SIB-200.
pub(super) const SIB_200_HEADER: [&str; 3] = ["index_id", "category", "text"];

/// Whether a first line is one of AG News: `"3","title","description"`.
pub(super) fn is_ag_news(line: &str) -> bool {
    let class = line.split(',').next().unwrap_or_default().trim().trim_matches('"');
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
    let columns = reader.records().next().and_then(std::result::Result::ok).map_or(0, |r| r.len());
    columns == 3 && class.parse::<usize>().is_ok_and(|c| (1..=AG_NEWS.len()).contains(&c))
}

/// `train.csv` and `test.csv`: class index, title, description, no header. The text is title and description with a space
/// between; the backslashes that stand for line ends there become spaces.
pub(super) fn ag_news(file: &File<'_>, options: &ReadOptions) -> Result<Vec<Example>> {
    let labels = options.labels.clone().unwrap_or_else(|| AG_NEWS.map(str::to_owned).to_vec());
    if labels.len() != AG_NEWS.len() {
        return Err(file.fault(1, format!("{} labels given, AG News has {}", labels.len(), AG_NEWS.len())));
    }
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(file.text.as_bytes());
    let mut examples = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|e| file.fault(e.position().map_or(0, csv::Position::line), e))?;
        let line = record.position().map_or(0, csv::Position::line);
        let [class, title, description] = [0, 1, 2].map(|i| record.get(i).unwrap_or_default());
        if record.len() != 3 {
            return Err(file.fault(line, format!("{} columns found, 3 allowed", record.len())));
        }
        let class = class.trim().parse().ok().filter(|c| (1..=labels.len()).contains(c));
        let Some(class) = class else {
            return Err(
                file.fault(line, format!("class {:?} found, 1 to {} allowed", &record[0], labels.len()))
            );
        };
        let text = format!("{} {}", title.trim(), description.trim()).replace('\\', " ");
        let label = Some(labels[class - 1].clone());
        let row = Row { line, id: None, set: None, text, label, labels: None };
        examples.push(example(file, row, &labels, options)?);
    }
    Ok(examples)
}

/// `LANGUAGE/{train,dev,test}.tsv`: `index_id`, `category`, `text`, with that header.
pub(super) fn sib_200(file: &File<'_>, options: &ReadOptions) -> Result<Vec<Example>> {
    let labels = SIB_200.map(str::to_owned).to_vec();
    let shown = options.labels.clone().unwrap_or_else(|| labels.clone());
    if shown.len() != labels.len() {
        return Err(file.fault(1, format!("{} labels given, SIB-200 has {}", shown.len(), labels.len())));
    }
    let mut reader = csv::ReaderBuilder::new().delimiter(b'\t').from_reader(file.text.as_bytes());
    let headers = reader.headers().map_err(|e| file.fault(1, e))?.clone();
    if headers.iter().map(str::trim).ne(SIB_200_HEADER) {
        return Err(file.fault(1, format!("the header must be {}", SIB_200_HEADER.join(", "))));
    }
    // The folder is the language, and the file only the split.
    let language = file.folder.file_name().map(|n| n.to_string_lossy().into_owned());
    let mut examples = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|e| file.fault(e.position().map_or(0, csv::Position::line), e))?;
        let line = record.position().map_or(0, csv::Position::line);
        let [id, category, text] = [0, 1, 2].map(|i| record.get(i).unwrap_or_default().trim());
        let Some(place) = labels.iter().position(|l| l == category) else {
            return Err(
                file.fault(line, format!("category {category:?} found, allowed: {}", labels.join(", ")))
            );
        };
        let row = Row {
            line,
            id: Some(format!("{}:{id}", language.as_deref().unwrap_or(file.set())))
                .filter(|_| !id.is_empty()),
            set: language.clone(),
            text: text.to_owned(),
            label: Some(shown[place].clone()),
            labels: None,
        };
        examples.push(example(file, row, &shown, options)?);
    }
    Ok(examples)
}
