# lme4's REML fit of one table, at its defaults, as a process of its own.
#
#   Rscript lme4.R TABLE.csv FORMULA OUT      OUT: one JSON object
#   Rscript lme4.R insteval TABLE.csv         write lme4's InstEval

suppressMessages(library(lme4))

words <- commandArgs(trailingOnly = TRUE)

if (words[1] == "insteval") {
  data(InstEval)
  write.csv(
    with(InstEval, data.frame(
      backbone = paste0("department-", dept), scenario = paste0("student-", s),
      lecturer = paste0("lecturer-", d), service = paste0("service-", service), score = y
    )),
    words[2], row.names = FALSE
  )
} else {
  table <- read.csv(words[1], stringsAsFactors = TRUE)
  for (name in setdiff(names(table), "score")) table[[name]] <- factor(table[[name]])
  seconds <- system.time(made <- suppressWarnings(lmer(as.formula(words[2]), table)))
  number <- function(x) sprintf("%.17g", x)
  found <- as.data.frame(VarCorr(made))
  writeLines(c(
    "{",
    sprintf('  "fit_s": %s,', number(seconds[["elapsed"]])),
    sprintf('  "singular": %s,', tolower(isSingular(made))),
    sprintf('  "reml_criterion": %s,', number(REMLcrit(made))),
    sprintf('  "r": "%s.%s",', R.version$major, R.version$minor),
    sprintf('  "lme4": "%s",', packageVersion("lme4")),
    '  "variance": {',
    paste(sprintf('    "%s": %s', found$grp, number(found$vcov)), collapse = ",\n"),
    "  }",
    "}"
  ), words[3])
}
