//! `baton tool`: lists, shows, catalogs, calls and tests the tools of the program or of a job.

mod call;
mod catalog;
mod document;
mod examples;
mod import;
mod look;
mod rows;
mod serve;
mod tools;

use std::path::PathBuf;

use baton_rcrt::Filter;
use baton_schema::provider::Target;
use clap::{Args, Command, Subcommand, ValueEnum, ValueHint};
use tools::Tools;

use crate::app::complete;
use crate::app::options::Common;
use crate::exit::{Exit, Failure};
use crate::place::Place;

/// Arguments of `tool`.
#[derive(Debug, Args)]
pub(crate) struct ToolArgs {
    #[command(subcommand)]
    verb: ToolVerb,
}

/// Selects the tools: those of the program, and those of a job.
#[derive(Clone, Debug, Args)]
struct Whose {
    /// Folder or name of a job whose tools are included
    #[arg(long, value_name = "JOB", value_hint = ValueHint::DirPath, add = complete::jobs())]
    job: Option<PathBuf>,
}

/// The verbs of `tool`.
#[derive(Debug, Subcommand)]
enum ToolVerb {
    /// List tools
    Ls {
        #[command(flatten)]
        whose: Whose,
    },
    /// Show a tool: description, input, output
    Show {
        /// The tool, such as `write_file`
        #[arg(add = complete::tools())]
        name: String,
        #[command(flatten)]
        whose: Whose,
        /// Show the tool as this agent of the job sees it, with the descriptions in the agent's config
        #[arg(long = "for", value_name = "AGENT")]
        agent: Option<String>,
    },
    /// Print the catalog of tools: a line for each, a prompt, or JSON
    #[command(after_help = "Example:\n  baton tool catalog --category data --tokens")]
    Catalog {
        /// Form of the catalog
        #[arg(long, value_name = "FORM", default_value = "compact")]
        format: catalog::Form,
        /// Print the number of tokens too, estimated from bytes
        #[arg(long)]
        tokens: bool,
        /// All tools that this agent of the job is granted, with the descriptions in the agent's config. Requests of an agent that
        /// discovers its tools offer fewer at first, and those of a universal agent offer none
        #[arg(long = "for", value_name = "AGENT")]
        agent: Option<String>,
        /// Only tools of this category
        #[arg(long, value_name = "CATEGORY")]
        category: Option<String>,
        /// Only tools with this tag. May be repeated: a tool must have all tags
        #[arg(long = "tag", value_name = "TAG")]
        tags: Vec<String>,
        #[command(flatten)]
        whose: Whose,
    },
    /// Call one tool in a temporary workspace
    #[command(disable_help_flag = true)]
    Call {
        /// The tool, then its input: `--input JSON|@FILE|-`, or one flag per parameter. `baton tool call NAME --help` lists them
        #[arg(value_name = "NAME", required = true, num_args = 1.., trailing_var_arg = true, allow_hyphen_values = true, add = complete::tools())]
        words: Vec<String>,
    },
    /// Run the examples in the configs of tools, as tests
    Test {
        /// The tools, such as `write_file` [default: all]
        #[arg(add = complete::tools())]
        names: Vec<String>,
        #[command(flatten)]
        whose: Whose,
        /// Trust the commands, addresses, hosts and variables that the job uses, now and in later runs
        #[arg(long)]
        trust: bool,
    },
    /// Write the tools of another system as tool configs.
    #[command(
        about = "Write the tools of another system as tool configs: the answer of MCP's tools/list, functions of OpenAI, an OpenAPI description, rows of resource.tools"
    )]
    Import {
        /// The JSON file with the definitions, or a folder with rows of resource.tools in JSON files
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Write the configs into DIR, a new or empty folder, such as `tools`
        #[arg(long, value_name = "DIR", default_value = "tools", value_hint = ValueHint::DirPath)]
        out: PathBuf,
        /// Word of the command that runs the tools; repeat it for each argument. The tool's original name is added
        #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
        exec: Vec<String>,
        /// Allow --out to replace files in a folder that is not empty
        #[arg(long)]
        force: bool,
    },
    /// Print tools that services execute as rows of resource.tools, in JSON
    #[command(after_help = "Example:\n  baton tool export --project acme --job jobs/report > rows.json")]
    Export {
        /// The tools [default: all with a `target_subject`]
        #[arg(add = complete::tools())]
        names: Vec<String>,
        /// The project of the rows
        #[arg(long, value_name = "PROJECT")]
        project: String,
        #[command(flatten)]
        whose: Whose,
    },
    /// Execute calls of tools for agents of other programs, over the bus, until Ctrl-C
    #[command(after_help = "Example:\n  baton tool serve calculator --bus nats://localhost:4222")]
    Serve {
        /// The tools, such as `calculator`
        #[arg(required = true, add = complete::tools())]
        names: Vec<String>,
        #[command(flatten)]
        whose: Whose,
        /// Trust the commands, addresses, hosts and variables that the tools use, now and in later runs
        #[arg(long)]
        trust: bool,
    },
    /// Print the JSON Schema of a tool's input, or the definition that a provider receives
    Schema {
        /// The tool, such as `write_file`
        #[arg(add = complete::tools())]
        name: String,
        /// Print the definition that this provider receives
        #[arg(long = "for", value_name = "PROVIDER")]
        provider: Option<Dialect>,
        #[command(flatten)]
        whose: Whose,
    },
}

/// Provider or protocol in whose form a tool's definition is printed.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Dialect {
    /// The definition that `OpenAI` receives, in strict mode if possible
    Openai,
    /// The definition that Anthropic receives
    Anthropic,
    /// The definition that Ollama receives
    Ollama,
    /// The definition of the Model Context Protocol
    Mcp,
}

impl Dialect {
    fn target(self) -> Target {
        match self {
            Self::Openai => Target::OpenAi,
            Self::Anthropic => Target::Anthropic,
            Self::Ollama => Target::Ollama,
            Self::Mcp => Target::Mcp,
        }
    }
}

/// Executes the verb of `tool`.
pub(crate) async fn run(args: &ToolArgs, place: &Place) -> Result<Exit, Failure> {
    match &args.verb {
        ToolVerb::Ls { whose } => look::list(&Tools::load(place, whose.job.as_deref())?, place)?,
        ToolVerb::Show { name, whose, agent } => {
            let tools = Tools::load(place, whose.job.as_deref())?.seen_by(agent.as_deref())?;
            look::show(tools.get(name)?, place)?;
        }
        ToolVerb::Catalog { format, tokens, agent, category, tags, whose } => {
            let tools = Tools::load(place, whose.job.as_deref())?.seen_by(agent.as_deref())?;
            let filter = Filter { category: category.clone(), tags: tags.clone() };
            catalog::print(&tools, &filter, *format, *tokens, place)?;
        }
        ToolVerb::Schema { name, provider, whose } => {
            let tools = Tools::load(place, whose.job.as_deref())?;
            look::schema(tools.get(name)?, provider.map(Dialect::target), place)?;
        }
        ToolVerb::Export { names, project, whose } => {
            rows::export(names, project, &Tools::load(place, whose.job.as_deref())?, place)?;
        }
        ToolVerb::Import { file, out, exec, force } => return import::run(file, out, exec, *force, place),
        ToolVerb::Call { words } if call::is_help(words) => print_call_help()?,
        ToolVerb::Call { words } => return call::run(words, place).await,
        ToolVerb::Serve { names, whose, trust } => return serve::run(names, whose.job.as_deref(), *trust, place).await,
        ToolVerb::Test { names, whose, trust } => return examples::run(names, whose.job.as_deref(), *trust, place).await,
    }
    Ok(Exit::Done)
}

/// Prints the help of `tool call`. The flags of one tool are in the help of `tool call NAME`.
fn print_call_help() -> Result<(), Failure> {
    let mut program = Common::augment_args(ToolVerb::augment_subcommands(Command::new("baton tool")));
    program.build();
    Ok(program.find_subcommand_mut("call").map_or(Ok(()), Command::print_help)?)
}
